# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's machine "virt" with a secure world, for the runners of firmware: virtual GPU and carve-out secure-only.

The guest's normal-world memory is a file that this process maps too: the mailbox, the signed trace and the tensors
pass through it. With one instruction a nanosecond of guest time (-icount shift=0), time counts instructions.
"""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from host_tools.runners.replay import Instructions, RunnerError
from host_tools.support import programs
from host_tools.vgpu import build
from tee_replayer.generator.status import Report

DRAM_BASE = 0x40000000  # QEMU hw/arm/virt.c
MIB = 1 << 20
SPI_BASE = 32  # interrupt id of the first shared peripheral interrupt
NS_PER_US = 1000
ICOUNT = ("-icount", "shift=0,sleep=off")
EXITS = (0, 1)  # of the guest's own: accepted, refused


@dataclass(frozen=True)
class Machine:
    """What differs between the machines.

    Attributes:
        image: flash, at the reset address.
        gic: version of the interrupt controller.
        serials: QEMU's -serial options: the normal world's port, the secure world's.
        gpu: the virtual GPU.
        gpu_base: its register window.
        gpu_spi: shared peripheral interrupt of its first line.
        carveout_base, carveout_bytes: secure memory that it reaches.
        firewall: register that gives the GPU from the normal world to the secure world; 0: it is always secure.
        cpus: cores.
        icount: time counts instructions and cores take turns; otherwise cores run at once, and faster.
        options: further options of QEMU.
    """

    image: Path
    gic: int
    serials: tuple[str, str]
    gpu: str
    gpu_base: int
    gpu_spi: int
    carveout_base: int
    carveout_bytes: int
    firewall: int = 0
    cpus: int = 1
    icount: bool = True
    options: tuple[str, ...] = ()


@contextmanager
def dram(size: int, at: int = 0, used: int = 0) -> Iterator[tuple[Path, memoryview]]:
    """Normal-world memory: its file, and the same bytes mapped here; they are gone at the end.

    Args:
        size: bytes in all; a hole, but for what is used.
        at, used: where, and how many bytes of it, this process will write. They get their place in the file
            system before: where a mapping of a file finds none, a signal ends the process.

    Raises:
        RunnerError: the file system is full.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        path = Path(name) / "dram"
        with path.open("w+b") as file:
            file.truncate(size)
            try:
                os.posix_fallocate(file.fileno(), at, max(used, 1))
            except OSError as error:
                raise RunnerError(
                    f"{path}: expected room for {used} bytes of the machine's memory, found: {error.strerror} "
                    "(TMPDIR says where such files lie)"
                ) from None
            with mmap.mmap(file.fileno(), size) as mapped, memoryview(mapped) as memory:
                yield path, memory


def run(
    machine: Machine,
    memory: Path,
    plugin_args: Mapping[str, str] | None,
    timeout_s: float,
    store: Path | None = None,
) -> str:
    """Run a machine to the guest's exit.

    Args:
        machine: its parts.
        memory: file of normal-world memory, from `dram`; its size is the memory's.
        plugin_args: further arguments of the QEMU plugin (host_tools/vgpu/qemu).
        timeout_s: of real time.
        store: folder in which the firmware finds files by semihosting.

    Returns:
        What QEMU and the machine's serial ports printed, in one line.

    Raises:
        RunnerError: QEMU is missing, did not end, found the file system full, or the guest took an exception.
    """
    arguments = {
        "gpu": machine.gpu,
        "base": f"{machine.gpu_base:#x}",
        "irq": str(machine.gpu_spi),
        "secure": "on",
        "carveout": f"{machine.carveout_base:#x}:{machine.carveout_bytes:#x}",
    }
    if machine.firewall:
        arguments["firewall"] = f"{machine.firewall:#x}"
    arguments |= dict(plugin_args or {})
    size = memory.stat().st_size
    command = [
        *(_qemu(), "-M", f"virt,secure=on,gic-version={machine.gic},memory-backend=ram"),
        *("-object", f"memory-backend-file,id=ram,size={size},mem-path={memory},share=on"),
        *("-m", f"{size // MIB}M", "-cpu", "cortex-a72", "-smp", str(machine.cpus), "-nic", "none"),
        *("-display", "none", "-monitor", "none", "-serial", machine.serials[0], "-serial", machine.serials[1]),
        *("-semihosting", "-bios", str(machine.image.resolve()), *(ICOUNT if machine.icount else ())),
        *("-plugin", build.plugin_option(build.qemu_plugin(), arguments), *machine.options),
    ]
    return run_qemu(command, memory, timeout_s, store)


def instructions(report: Report) -> Instructions:
    """The replayer's times as instructions."""
    return Instructions(*(us * NS_PER_US for us in (report.verify_us, report.load_us, report.replay_us)))


def _qemu() -> str:
    found = shutil.which(build.QEMU)
    if found is None:
        raise RunnerError(f"{build.QEMU} is not installed (apt-get install qemu-system-arm)")
    return found


def run_qemu(command: Sequence[str], memory: Path, timeout_s: float, cwd: Path | None = None) -> str:
    """As `run`, with QEMU's whole command line; `cwd` is the folder that it starts in."""
    try:
        done = programs.run(command, timeout_s=timeout_s, cwd=cwd)
    except subprocess.TimeoutExpired:
        raise RunnerError(f"QEMU did not end within {timeout_s:.0f} s (--timeout gives it more)") from None
    output = " ".join((done.stdout + done.stderr).split())
    if done.returncode == -signal.SIGBUS:  # what QEMU and the guest write of it, nobody knows before
        free = shutil.disk_usage(memory).free
        raise RunnerError(
            f"{memory}: QEMU found no room for what the machine writes to its memory: {free} bytes are free there "
            "(TMPDIR says where such files lie)"
        )
    if done.returncode not in EXITS:
        raise RunnerError(f"QEMU ended with status {done.returncode}: {output or 'it printed nothing'}")
    return output
