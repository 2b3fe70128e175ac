# SPDX-License-Identifier: BSD-2-Clause
"""OP-TEE's machine with Debian's Linux as the normal world; jobs are those of the recording machine.

TF-A starts a small program (baremetal/optee/linux.c) that jumps to the kernel. Kernel, initramfs and device tree
lie in memory when the machine starts; TF-A and OP-TEE add their own nodes to the tree (psci, firmware/optee,
reserved-memory), as they do on a board. The carve-out begins where the normal world's memory ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from host_tools.machine.boot import KERNEL_ARGUMENTS, GuestJob, guest_archive, read_counters
from host_tools.machine.console import GuestResult, last_lines, read_console
from host_tools.machine.devicetree import Tree, with_gpu
from host_tools.machine.placements import PLACEMENTS
from host_tools.machine.root import ready_root
from host_tools.runners.optee import guest
from host_tools.runners.optee.images import Image
from host_tools.runners.optee.normal_world import machine_of
from host_tools.runners.replay import RunnerError
from host_tools.runners.secure_machine import DRAM_BASE, MIB, SPI_BASE, dram, run
from host_tools.support.sources import BARE_METAL
from trace_format.files import read_file

NORMAL_WORLD = BARE_METAL / "optee" / "linux.c"
DRAM_BYTES = 2048 * MIB
KERNEL = 0x48000000  # linux.c
INITRD = 0x61000000  # after the place where TF-A puts linux.c
MAGIC, MAGIC_AT = b"ARM\x64", 56  # of a kernel's header
# As the recording machine, so that a run can be repeated.
FIXED = ("-seed", "42", "-rtc", "base=2026-01-01,clock=vm", "-no-reboot")
LOAD = f"for module in $(cat /usr/lib/modules/{guest.MODULE}.order); do insmod /usr/lib/modules/$module; done"
SUPPLICANT = f"tee-supplicant --daemonize --ta-path /{guest.TAS} --fs-parent-path /{guest.STORAGE} || exit"


def boot(
    image: Image,
    job: GuestJob,
    *,
    gpu: str | None = None,
    plugin_args: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> GuestResult:
    """Boot the machine, run the job, power off.

    Args:
        image: firmware whose normal world is NORMAL_WORLD. If its pseudo-TA shares the GPU, the guest has it at
            first, with its driver loaded.
        job: what to run. `gramophone-tee` is there, the supplicant runs; TAs belong in the folder guest.TAS.
        gpu: the virtual GPU; without it the job's.
        plugin_args: further arguments of the QEMU plugin.
        timeout_s: of real time.

    Raises:
        RecordError: the guest's parts cannot be obtained, its kernel panicked, or the command failed.
        RunnerError: QEMU is missing or did not end, or the GPU is not where the guest looks for it.
    """
    board, placement = image.board, PLACEMENTS[job.gpu]
    driver, commands = guest.MODULE, [SUPPLICANT, job.command]
    shared = bool(board.firewall_base)
    if shared:
        if (board.gpu_base, board.gpu_intid) != (placement.base, SPI_BASE + placement.irqs[0]):
            raise RunnerError(f"the pseudo-TA's GPU is not where the guest has {job.gpu}")
        driver, commands = placement.module, [LOAD, SUPPLICANT, placement.setup + job.command]
    root = ready_root()
    files, programs = guest.client()
    job = replace(job, files={**files, **job.files}, programs=job.programs | programs)
    initrd = read_file(root.base) + read_file(guest.layer(root))
    initrd += guest_archive(job, driver, "\n".join(commands))
    with dram(DRAM_BYTES, KERNEL - DRAM_BASE, INITRD + len(initrd) - KERNEL) as (path, memory):
        console, stats, tree = (path.with_name(name) for name in ("console", "stats.json", "tree"))
        machine = machine_of(image, gpu or placement.gpu, f"file:{console}")
        run(replace(machine, options=("-machine", f"dumpdtb={tree}")), path, None, timeout_s)
        blob = read_file(tree)
        tree.write_bytes(device_tree(with_gpu(blob, job.gpu) if shared else blob, len(initrd)))
        _put(memory, KERNEL, kernel_image(root.kernel))
        _put(memory, INITRD, initrd)
        machine = replace(machine, options=("-dtb", str(tree), *FIXED))
        try:
            output = run(machine, path, {**(plugin_args or {}), "stats": str(stats)}, timeout_s)
        except RunnerError as error:
            ended = last_lines(read_file(console)) if console.exists() else "(nothing)"
            raise RunnerError(f"{error}; Linux said: {ended}") from error
        return read_console(read_file(console), output, read_counters(stats))


def kernel_image(path: Path) -> bytes:
    """A kernel to jump to (Linux Documentation/arch/arm64/booting.rst); RunnerError when it is not one."""
    data = read_file(path)
    found = data[MAGIC_AT : MAGIC_AT + len(MAGIC)]
    if found != MAGIC:
        raise RunnerError(
            f"{path}: offset {MAGIC_AT}: expected {MAGIC.hex()}, an arm64 kernel that is not compressed, "
            f"found {found.hex() or 'nothing'}"
        )
    return data


def device_tree(blob: bytes, initrd_bytes: int) -> bytes:
    """QEMU's tree with what a boot loader passes to the kernel."""
    tree = Tree(blob)
    ends = {"start": INITRD, "end": INITRD + initrd_bytes}
    cells = {f"linux,initrd-{name}": [at >> 32, at & 0xFFFF_FFFF] for name, at in ends.items()}
    tree.set("/chosen", {"bootargs": KERNEL_ARGUMENTS, **cells})
    return tree.to_bytes()


def _put(memory: memoryview, address: int, data: bytes) -> None:
    at = address - DRAM_BASE
    if len(data) > len(memory) - at:
        raise RunnerError(f"the guest's {len(data)} bytes do not fit its memory at {address:#x}")
    memory[at : at + len(data)] = data
