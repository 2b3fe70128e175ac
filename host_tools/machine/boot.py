# SPDX-License-Identifier: BSD-2-Clause
"""Boots the recording machine: stock QEMU, Debian's kernel, the guest root, and the virtual GPU as a device.

Everything that could differ between two runs is fixed: time counts executed instructions (-icount), random numbers
come from a seed, the clock starts at a fixed date, the kernel's address is not randomised. The same job on the
same root gives the same recording, bit for bit.

The machine boots once, to where it is ready for a job; every run starts from that state (saved_state.py) and gets
its job through the device plugin's window.
"""

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from host_tools.machine import initramfs, saved_state
from host_tools.machine.console import GuestResult, last_lines, read_console
from host_tools.machine.devicetree import with_gpu, with_overlay
from host_tools.machine.driver_files import driver_files
from host_tools.machine.errors import RecordError
from host_tools.machine.placements import BOOT_TIMEOUT_S as BOOT_TIMEOUT_S
from host_tools.machine.placements import PLACEMENTS
from host_tools.machine.root import RecordRoot
from host_tools.support import programs
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.progress import phase
from host_tools.vgpu.build import plugin_option
from trace_format.files import open_regular, read_file, read_file_text

QEMU = "qemu-system-aarch64"
MEMORY_MB = 2048
START_TIMEOUT_S = 300  # at least; it takes 8 s and does not depend on a job, whose time limit may be short
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
    "-no-reboot",
    "-nodefaults",
    "-icount",
    "shift=1,sleep=off",
    "-seed",
    "42",
    "-rtc",
    "base=2026-01-01,clock=vm",
)
VIRT = "virt,gic-version=3"
KERNEL_ARGUMENTS = "console=ttyAMA0 panic=-1 quiet nokaslr"
INIT = Path(__file__).with_name("init")
RECEIVE = Path(__file__).with_name("receive_job.py")  # names what it does to Linux and to the window
MMAP = f"{initramfs.STDLIB}/lib-dynload/mmap.cpython-313-aarch64-linux-gnu.so"
TREE, RAM = "tree.dtb", "ram"  # beside the state
# The window is at 4 GiB, above the places that GPUs have in gpus/FAMILY/guest.toml. The virt machine leaves the
# addresses from 1 GiB to 256 GiB to RAM (QEMU hw/arm/virt.c), of which this one has 2 GiB.
WINDOW = 0x1_0000_0000
MAX_JOB_BYTES = 1 << 30  # as vgpu/qemu/job_window.h; the guest unpacks a job to half of its RAM
GPU_STOPPED = 3  # QEMU's status where the virtual GPU stopped (EXIT_GPU_FAILED, host_tools/vgpu/qemu)
_STOPPED = re.compile(r"^gramophone: virtual GPU: (.*)$", re.MULTILINE)
_UNKNOWN = re.compile(r"operation that is not known \((0x[0-9a-f]+)\)$|that (?:is|are) not modelled")


class StoppedError(RecordError):
    """The virtual GPU stopped at something that it does not model, or that is wrong.

    Args:
        reason: what, in the virtual GPU's words.
        jobs: chains, or jobs of a V3D, that had ended before.
        gpu: its name for `--gpu`.
    """

    def __init__(self, reason: str, jobs: int, gpu: str) -> None:
        self.jobs = jobs
        text = f"the virtual GPU stopped after {jobs} jobs: {reason}"
        if found := _UNKNOWN.search(reason):
            other = "" if gpu == DEFAULT_GPU else f"`--gpu {DEFAULT_GPU}` may record it; "
            text += f"; {other}please report {found[1] or 'this'}"
        super().__init__(text)


class _StoppedHereError(RecordError):
    """The same, with the reason only."""


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
        expected_jobs: GPU jobs that it runs, for who waits; 0: nobody knows.
    """

    command: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
    gpu: str = DEFAULT_GPU
    uses_gpu: bool = True
    overlay: bytes | None = None
    expected_jobs: int = 0


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
    console: Path | None = None,
) -> GuestResult:
    """Boot the machine, run the job, power off.

    Args:
        job: what to run.
        root: from `record_root()`.
        plugin: the virtual GPU as a QEMU plugin.
        plugin_args: more arguments of the plugin (capture, latency); where the GPU sits is added here.
        timeout: host seconds after which the machine is stopped.
        console: file for what the guest sends, for a caller who reads it meanwhile.

    Raises:
        RecordError: QEMU is missing or failed, the kernel panicked, the machine did not power off in time, the
            command failed, no job reached the GPU, or it or its driver reported a hang or a fault.
    """
    placement = PLACEMENTS[job.gpu]
    place = {"gpu": placement.gpu, "base": f"{placement.base:#x}", "irq": str(placement.irqs[0])}
    place["window"] = f"{WINDOW:#x}"
    if placement.map:
        place["map"] = placement.map
    # `job_digest` leaves out the driver's files: they follow from the root's packages.
    archive = job_archive(replace(job, files={**job.files, **driver_files(placement, root)}))
    if len(archive) > MAX_JOB_BYTES:
        raise RecordError(f"the job's files are {len(archive)} bytes, more than {MAX_JOB_BYTES}")
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        folder = Path(name)
        console = console or folder / "console"
        (folder / "job").write_bytes(archive)
        del archive
        arguments = {
            **place,
            **(plugin_args or {}),
            "stats": str(folder / "stats.json"),
            "archive": str(folder / "job"),
        }

        def run() -> str:
            ready = _ready(job, root, plugin_option(plugin, place), timeout)
            return _run_job(ready, root, plugin_option(plugin, arguments), console, timeout)

        try:
            stderr = run()
        except saved_state.Damaged as damaged:
            saved_state.remove(damaged)
            stderr = run()
        except _StoppedHereError as stopped:
            raise StoppedError(str(stopped), _jobs_before(folder / "stats.json"), job.gpu) from stopped
        counters = read_counters(folder / "stats.json")
        if counters["faults"]:
            raise RecordError(f"the GPU raised {counters['faults']} MMU faults")
        result = read_console(read_file(console), stderr, counters)
    if job.uses_gpu and not counters["jobs"]:
        raise RecordError(
            f"no compute job reached the GPU; the program said: {last_lines(result.output.encode())}"
        )
    return result


def _jobs_before(stats: Path) -> int:
    """How many jobs had ended when the virtual GPU stopped; its counters are written then, too."""
    return int(json.loads(read_file_text(stats))["jobs"])


def read_counters(stats: Path) -> dict[str, int]:
    """The virtual GPU's counters.

    Raises:
        RecordError: there are none, or it stopped at something that it does not model.
    """
    try:
        values = json.loads(read_file_text(stats))
    except (OSError, ValueError) as error:
        raise RecordError(f"the virtual GPU left no counters: {error}") from error
    if values["error"] is not None:
        raise RecordError(f"the virtual GPU stopped: {values['error']}")
    return {key: value for key, value in values.items() if isinstance(value, int)}


def _command(root: RecordRoot, ready: Path, console: Path, plugin: str, *, saving: bool) -> list[str]:
    """QEMU for the machine, but for the initramfs, which only its first start needs.

    Args:
        ready: folder with its device tree and RAM.
        saving: RAM is that file; else what the machine writes stays with it.
    """
    share = "on" if saving else "off"
    ram = f"memory-backend-file,id=ram,size={MEMORY_MB}M,mem-path={_escaped(ready / RAM)},share={share}"
    command = [QEMU, "-M", f"{VIRT},memory-backend=ram", *MACHINE, "-object", ram, "-kernel", str(root.kernel)]
    command += ["-append", KERNEL_ARGUMENTS, "-dtb", str(ready / TREE)]
    return [*command, "-serial", f"file:{_escaped(console)}", "-plugin", plugin]


def _escaped(path: Path) -> str:
    """A path as a part of an option's value."""
    return str(path).replace(",", ",,")


def _ready(job: GuestJob, root: RecordRoot, plugin: str, timeout: float) -> Path:
    """Folder with the state of the machine when it is ready for this job, and its device tree."""
    first = _first_archive(root)
    words = (qemu_version(), root.key, VIRT, *MACHINE, KERNEL_ARGUMENTS, repr(PLACEMENTS[job.gpu].nodes))

    def make(folder: Path) -> None:
        with phase("starting the guest, once, to where it is ready"):
            tree = _device_tree(folder, job.gpu)
            (folder / TREE).write_bytes(tree if job.overlay is None else with_overlay(tree, job.overlay))
            _save(root, folder, first, plugin, max(timeout, START_TIMEOUT_S))

    return saved_state.kept([*(word.encode() for word in words), first, job.overlay or b""], make)


def _save(root: RecordRoot, folder: Path, first: bytes, plugin: str, timeout: float) -> None:
    """Start the machine with the device tree in a folder, and leave its state and RAM there."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        console, initrd = Path(name) / "console", Path(name) / "initrd"
        with initrd.open("wb") as file, open_regular(root.base) as base:
            shutil.copyfileobj(base, file)
            file.write(first)
        command = [*_command(root, folder, console, plugin, saving=True), "-initrd", str(initrd)]
        with _time_limit(console, timeout, "was not ready"):
            done = saved_state.save(command, folder / saved_state.STATE, timeout)
        if done is None:
            return
        _check_status(done)
        said = read_file(console)
        if not re.search(rb"Kernel panic|@gramophone begin received", said):
            raise RecordError(f"the guest ended before it was ready for a job: {last_lines(said)}")
        read_console(said, done.stderr, {})


def _run_job(ready: Path, root: RecordRoot, plugin: str, console: Path, timeout: float) -> str:
    """Run the machine from a state to its end; QEMU's standard error."""
    with _time_limit(console, timeout):
        done = saved_state.load(_command(root, ready, console, plugin, saving=False), ready, timeout)
    return _check_status(done)


def _device_tree(folder: Path, gpu: str) -> bytes:
    dump = folder / "virt.dtb"
    with _time_limit(dump, 60):
        _check_status(programs.run([QEMU, "-M", f"{VIRT},dumpdtb={dump}", *MACHINE], timeout_s=60))
    tree = read_file(dump)
    dump.unlink()
    return with_gpu(tree, gpu)


def _first_archive(root: RecordRoot) -> bytes:
    """The part of the guest's initramfs that is ours: what runs until the guest has its job."""
    mmap = root.tree / MMAP
    if not mmap.exists():
        raise RecordError(f"the recording root has no {MMAP}: run `make record-root`")
    files = {MMAP: read_file(mmap), "init": INIT.read_bytes(), "receive_job.py": RECEIVE.read_bytes()}
    return initramfs.job_archive({**files, "window": f"{WINDOW:#x}".encode()}, {"init"})


def job_archive(job: GuestJob) -> bytes:
    """The job's files as the guest gets them."""
    placement = PLACEMENTS[job.gpu]
    return initramfs.job_archive(_files(job, placement.module, placement.setup + job.command), job.programs)


def job_digest(job: GuestJob) -> str:
    """SHA-256 of all of ours that decides what happens in the guest; the rest is the root's and QEMU's."""
    parts = (INIT.read_bytes(), RECEIVE.read_bytes(), job_archive(job))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def run_digest(job: GuestJob, root: RecordRoot) -> str:
    """SHA-256 of all that decides what a run gives: two GPUs with one driver have the same job."""
    parts = (root.key, qemu_version(), job.gpu, job_digest(job))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def guest_archive(job: GuestJob, driver: str, command: str) -> bytes:
    """The job's files with the guest's init, for a machine that has them from the start.

    Args:
        job: what the files are of.
        driver: the driver to load first.
        command: in place of the job's.
    """
    files = {**_files(job, driver, command), "init": INIT.read_bytes()}
    return initramfs.job_archive(files, {"init", *job.programs})


def _files(job: GuestJob, driver: str, command: str) -> dict[str, bytes]:
    return {**job.files, "job/command": command.encode(), "job/driver": driver.encode()}


@contextlib.contextmanager
def _time_limit(console: Path, timeout: float, what: str = "did not power off") -> Iterator[None]:
    """Within, a program that was ended is a RecordError."""
    try:
        yield
    except subprocess.TimeoutExpired as error:
        last = last_lines(read_file(console) if console.exists() else b"")
        raise RecordError(
            f"the recording machine {what} within {timeout:.0f} s (--timeout gives it more); "
            f"its console ended: {last}"
        ) from error


def _check_status(done: subprocess.CompletedProcess[str]) -> str:
    """QEMU's standard error, if it did not fail."""
    if done.returncode == GPU_STOPPED and (found := _STOPPED.search(done.stderr)):
        raise _StoppedHereError(found[1])
    if done.returncode:
        raise RecordError(f"{QEMU} failed with status {done.returncode}: {last_lines(done.stderr.encode())}")
    return done.stderr
