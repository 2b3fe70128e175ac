# SPDX-License-Identifier: BSD-2-Clause
"""Recording any program that drives the GPU: one boot, one raw trace, no slots."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.boot import BOOT_TIMEOUT_S, RAM_END, GuestJob, boot, qemu_version
from host_tools.machine.elf import closure
from host_tools.machine.errors import RecordError
from host_tools.machine.initramfs import LIBRARIES
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.record.convert import convert
from host_tools.support.progress import phase
from host_tools.support.version import TOOL
from host_tools.vgpu.build import qemu_plugin
from trace_format.trace import Trace

FOLDER = "work"  # the program's working directory in the guest


@dataclass(frozen=True)
class ProgramRun:
    """What came of a program.

    Attributes:
        trace: the GPU's raw trace.
        output: what the program printed.
    """

    trace: Trace
    output: str


def record_program(
    program: Path,
    args: Sequence[str],
    files: Sequence[Path],
    *,
    name: str,
    gpu: str,
    timeout: float = BOOT_TIMEOUT_S,
    snapshot: str = "",
) -> ProgramRun:
    """Boot the stack, run an aarch64 program in it and record the GPU.

    Args:
        program: ELF file on this machine; its libraries are taken from `files`, else from the record root.
        args: its arguments; one that names a file here is taken along and passed by its base name.
        files: more files for its working directory.
        name: name of the trace.
        timeout: time limit of the boot, in seconds.
        snapshot: as for `record_network`.

    Raises:
        RecordError: not an aarch64 ELF, a library is missing, the program failed, or no GPU job was submitted.
        TraceError: register accesses that cannot be replayed.
        OSError: a file cannot be read.
    """
    root = ready_root(snapshot)
    job = program_job(root, program, args, files, gpu)
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        capture = Path(folder) / "capture"
        plugin = qemu_plugin()
        with phase(f"recording {program.name}: one boot"):
            result = boot(job, root, plugin, {"capture": str(capture)}, timeout=timeout)
        meta = {"name": name, "recorder": TOOL}
        meta |= {"kernel": root.kernel_name, "driver": root.driver_name}
        notes = {**root.notes, "qemu": qemu_version()}
        trace = convert(capture, ram_end=RAM_END, meta=meta, notes=notes)
    return ProgramRun(trace, result.output)


def program_job(root: RecordRoot, program: Path, args: Sequence[str], files: Sequence[Path], gpu: str) -> GuestJob:
    """What the guest is to do for `record_program`; raises what that raises before the boot."""
    taken, guest_args = _arguments(args)
    beside = _by_name([program, *files, *taken])
    content = {f"{FOLDER}/{base}": path.read_bytes() for base, path in beside.items()}
    content |= _libraries(root, program, beside)
    # Mesa's shader cache begins empty: to keep one takes a second boot (host_tools/record/shader_cache.py), and
    # what the guest compiles is no part of the recording.
    command = f"cd /{FOLDER} && {shlex.join([f'./{program.name}', *guest_args])}"
    return GuestJob(command, content, frozenset(content), gpu=gpu)


def _arguments(args: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The files among the arguments, and the arguments as the guest is to see them."""
    files, seen = [], []
    for arg in args:
        path = Path(arg)
        if path.is_file():
            files.append(path)
        seen.append(path.name if path.is_file() else arg)
    return files, seen


def _by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by base name; one may be named twice, two of one name cannot lie in one folder."""
    found: dict[str, Path] = {}
    for path in paths:
        other = found.setdefault(path.name, path)
        if other.resolve() != path.resolve():
            raise RecordError(f"{path} and {other} have one name, and the guest has one folder for both")
    return found


def _libraries(root: RecordRoot, program: Path, beside: dict[str, Path]) -> dict[str, bytes]:
    """Guest path -> content of the libraries that the program needs; given ones go where the loader looks."""
    given = {f"{LIBRARIES}/{base}": path for base, path in beside.items()}
    guest_program = f"{FOLDER}/{program.name}"
    try:
        needed = closure(root.tree, [guest_program], {**given, guest_program: program})
    except (ValueError, OSError) as error:  # pyelftools on texts and offsets that lead nowhere
        raise RecordError(f"{program}: a damaged ELF program: {error}") from error
    return {path: host.read_bytes() for path, host in needed.items() if path != guest_program}
