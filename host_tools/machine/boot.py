# SPDX-License-Identifier: BSD-2-Clause
"""Boots the recording machine: stock QEMU, Debian's kernel, the guest root, and the virtual GPU as a device.

Everything that could differ between two runs is fixed: time counts executed instructions (-icount), random numbers
come from a seed, the clock starts at a fixed date, the kernel's address is not randomised. The same job on the
same root gives the same recording, bit for bit.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from host_tools.machine import initramfs
from host_tools.machine.console import parse_frames
from host_tools.machine.devicetree import with_gpu, with_overlay
from host_tools.machine.errors import RecordError
from host_tools.machine.placements import DRIVERS, PLACEMENTS
from host_tools.machine.root import RecordRoot
from host_tools.support import programs
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.vgpu.build import plugin_option

QEMU = "qemu-system-aarch64"
MEMORY_MB = 2048
BOOT_TIMEOUT_S = 900
RAM_END = 0x4000_0000 + (MEMORY_MB << 20)  # the virt machine's RAM begins at 1 GiB (QEMU hw/arm/virt.c)
MACHINE = (
    "-cpu",
    "cortex-a72",
    "-smp",
    "1",
    "-m",
    str(MEMORY_MB),
    "-nic",
    "none",
    "-display",
    "none",
    "-monitor",
    "none",
    # Shared memory: the virtual GPU maps the guest's pages into an address space of its own.
    "-object",
    f"memory-backend-memfd,id=ram,size={MEMORY_MB}M,share=on",
    "-no-reboot",
    "-nodefaults",
    "-icount",
    "shift=1,sleep=off",
    "-seed",
    "42",
    "-rtc",
    "base=2026-01-01,clock=vm",
)
VIRT = "virt,gic-version=3,memory-backend=ram"
KERNEL_ARGUMENTS = "console=ttyAMA0 panic=-1 quiet nokaslr"
INIT = Path(__file__).with_name("init")
# What drivers (v3d, panfrost) say when a job failed (Linux drivers/gpu/drm/{v3d,panfrost,scheduler}); the program
# that submitted it is not informed.
DRIVER_TROUBLE = re.compile(
    rf"({'|'.join(driver.module for driver in DRIVERS)}|\[drm).*"
    r"(MMU error|Resetting GPU|hang|gpu reset|Unhandled Page fault|js fault|timeout|\*ERROR\*)",
    re.IGNORECASE,
)


class ProgramError(RecordError):
    """The guest's program ended with a status that is not 0.

    Args:
        status: that status.
        output: all that the program printed.
    """

    def __init__(self, status: int, output: str) -> None:
        last = last_lines(output.encode(), 15)
        super().__init__(f"the guest's program failed with status {status}: {last}")
        self.output = output


@dataclass(frozen=True)
class GuestJob:
    """What the guest must do.

    Attributes:
        command: shell script; its output and exit status come back, and every file that it leaves in /out.
        files: content by guest path, without the leading "/".
        programs: those of `files` that are executable.
        gpu: key of `placements.PLACEMENTS`.
        uses_gpu: a run in which no compute job reached the GPU is an error.
        overlay: for the machine's device tree, compiled; None: none.
    """

    command: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
    gpu: str = DEFAULT_GPU
    uses_gpu: bool = True
    overlay: bytes | None = None


@dataclass(frozen=True)
class GuestResult:
    """What came of a job that ran to its end.

    Attributes:
        output: the command's standard output and error.
        files: content of the files left in /out, by path below it.
        dmesg: the kernel's messages.
        seconds: the command's run time in the guest's own clock.
        counters: the virtual GPU's: "jobs", "instructions", "faults", ...
    """

    output: str
    files: dict[str, bytes]
    dmesg: str
    seconds: float
    counters: dict[str, int]


def qemu_version() -> str:
    """Version line of the machine's emulator.

    Raises:
        RecordError: it is not installed.
    """
    if shutil.which(QEMU) is None:
        raise RecordError(f"{QEMU} is missing: apt-get install qemu-system-arm")
    return programs.run([QEMU, "--version"]).stdout.splitlines()[0]


def boot(
    job: GuestJob,
    root: RecordRoot,
    plugin: Path,
    plugin_args: Mapping[str, str] | None = None,
    *,
    timeout: float = BOOT_TIMEOUT_S,
) -> GuestResult:
    """Boot the machine, run the job, power off.

    Args:
        job: what to run.
        root: from `record_root()`.
        plugin: the virtual GPU as a QEMU plugin.
        plugin_args: more arguments of the plugin (capture, latency); where the GPU sits is added here.
        timeout: host seconds after which the machine is stopped.

    Raises:
        RecordError: QEMU is missing or failed, the kernel panicked, the machine did not power off in time, the
            command failed, no job reached the GPU, or it or its driver reported a hang or a fault.
    """
    qemu_version()
    placement = PLACEMENTS[job.gpu]
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        folder = Path(name)
        arguments = {
            "gpu": placement.gpu,
            "base": f"{placement.base:#x}",
            "irq": str(placement.irqs[0]),
            **(plugin_args or {}),
            "stats": str(folder / "stats.json"),
        }
        tree = _device_tree(folder, job.gpu)
        (folder / "tree.dtb").write_bytes(tree if job.overlay is None else with_overlay(tree, job.overlay))
        with (folder / "initrd").open("wb") as initrd, root.base.open("rb") as base:
            shutil.copyfileobj(base, initrd)
            initrd.write(job_archive(job))
        command = [
            QEMU,
            "-M",
            VIRT,
            *MACHINE,
            "-kernel",
            str(root.kernel),
            "-initrd",
            str(folder / "initrd"),
            "-dtb",
            str(folder / "tree.dtb"),
            "-append",
            KERNEL_ARGUMENTS,
            "-serial",
            f"file:{folder / 'console'}",
            "-plugin",
            plugin_option(plugin, arguments),
        ]
        stderr = _run(command, folder / "console", timeout)
        counters = read_counters(folder / "stats.json")
        if counters["faults"]:
            raise RecordError(f"the GPU raised {counters['faults']} MMU faults")
        result = read_console((folder / "console").read_bytes(), stderr, counters)
    if job.uses_gpu and not counters["jobs"]:
        raise RecordError(
            f"no compute job reached the GPU; the program said: {last_lines(result.output.encode())}"
        )
    return result


def read_counters(stats: Path) -> dict[str, int]:
    """The virtual GPU's counters.

    Raises:
        RecordError: there are none, or it stopped at something that it does not model.
    """
    try:
        values = json.loads(stats.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"the virtual GPU left no counters: {error}") from error
    if values["error"] is not None:
        raise RecordError(f"the virtual GPU stopped: {values['error']}")
    return {key: value for key, value in values.items() if isinstance(value, int)}


def _device_tree(folder: Path, gpu: str) -> bytes:
    dump = folder / "virt.dtb"
    _run([QEMU, "-M", f"{VIRT},dumpdtb={dump}", *MACHINE], None, 60)
    return with_gpu(dump.read_bytes(), gpu)


def job_archive(job: GuestJob) -> bytes:
    """The part of the guest's initramfs that is the job's own; with the root it determines all that happens."""
    placement = PLACEMENTS[job.gpu]
    return guest_archive(job, placement.module, placement.setup + job.command)


def guest_archive(job: GuestJob, driver: str, command: str) -> bytes:
    """The job's files with what the guest's init requires: the driver to load first, and a command."""
    files = {
        **job.files,
        "init": INIT.read_bytes(),
        "job/command": command.encode(),
        "job/driver": driver.encode(),
    }
    return initramfs.job_archive(files, {"init", *job.programs})


def _run(command: list[str], console: Path | None, timeout: float) -> str:
    """Run QEMU to its end; its standard error."""
    try:
        done = programs.run(command, timeout_s=timeout)
    except subprocess.TimeoutExpired as error:
        last = last_lines(console.read_bytes() if console and console.exists() else b"")
        raise RecordError(
            f"the recording machine did not power off within {timeout:.0f} s (--timeout gives it more); "
            f"its console ended: {last}"
        ) from error
    if done.returncode:
        raise RecordError(f"{QEMU} failed with status {done.returncode}: {last_lines(done.stderr.encode())}")
    return done.stderr


def read_console(console: bytes, stderr: str, counters: dict[str, int]) -> GuestResult:
    """Read what the guest sent, and check it.

    Args:
        console: all that it wrote to its console.
        stderr: QEMU's messages, for the error's text.
        counters: the virtual GPU's, passed on.

    Raises:
        RecordError: as `boot`.
    """
    panic = re.search(rb"Kernel panic[^\r\n]*", console)
    if panic:
        raise RecordError(f"the guest's kernel panicked: {panic[0].decode(errors='replace')}")
    frames = parse_frames(console)
    if "insmod" in frames:
        raise RecordError(
            f"the guest could not load the GPU's driver: {frames['insmod'].decode(errors='replace').strip()}"
        )
    if "status" not in frames:
        raise RecordError(
            f"the guest ended before its job did: {last_lines(console)} {last_lines(stderr.encode())}"
        )
    status = int(frames["status"])
    output = frames["output"].decode(errors="replace")
    dmesg = frames["dmesg"].decode(errors="replace")
    trouble = DRIVER_TROUBLE.search(dmesg)
    if trouble:
        raise RecordError(f"the GPU's driver reported trouble: {trouble[0].strip()}")
    if status:
        raise ProgramError(status, output)
    begin, end = map(float, frames["uptime"].split())
    files = {name.removeprefix("out/"): data for name, data in frames.items() if name.startswith("out/")}
    return GuestResult(output, files, dmesg, end - begin, counters)


def last_lines(text: bytes, count: int = 5) -> str:
    """The last `count` lines of a text that are not blank."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "(nothing)"
