# SPDX-License-Identifier: BSD-2-Clause
"""Recording any program that drives the GPU: one run, or two with other data, from which slots follow."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from host_tools.machine.boot import BOOT_TIMEOUT_S, RAM_END, GuestJob, boot, qemu_version
from host_tools.machine.elf import closure
from host_tools.machine.errors import RecordError
from host_tools.machine.initramfs import LIBRARIES
from host_tools.machine.more_packages import with_packages
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.record.checking import LEFT_OUT, UNCHECKED, check_replay
from host_tools.record.convert import convert
from host_tools.record.layouts import in_order
from host_tools.record.slots import with_slots
from host_tools.support.progress import jobs_in, phase
from host_tools.support.version import TOOL
from host_tools.vgpu.build import qemu_plugin
from trace_format import limits
from trace_format.files import read_file
from trace_format.trace import Trace

FOLDER = "work"  # the program's working directory in the guest
RESULT = "result"  # with its number: a result's file among those that the guest sends
SEED = 2
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class GuestProgram:
    """A program and what it gets.

    Attributes:
        path: ELF file on this machine; its libraries are taken from `files`, else from the record root.
        args: its arguments; one that names a file here is taken along and passed by its base name.
        files: more files for its working directory, and folders with what is in them.
        environment: variables.
        packages: of Debian, that the guest has besides its own.
        inputs: name of a slot -> file here with its value, little-endian float32, which is taken along.
        results: name of a slot -> file that the program leaves, from its working directory, of the same form.
    """

    path: Path
    args: Sequence[str] = ()
    files: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = ()
    inputs: Mapping[str, Path] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramRun:
    """What came of a program.

    Attributes:
        trace: the GPU's raw trace.
        output: what the program printed.
        results: what it left, by slot.
    """

    trace: Trace
    output: str
    results: dict[str, Float32] = field(default_factory=dict)


def record_program(
    program: GuestProgram,
    *,
    name: str,
    gpu: str,
    timeout: float = BOOT_TIMEOUT_S,
    snapshot: str = "",
    check: bool = True,
) -> ProgramRun:
    """Boot the stack, run an aarch64 program in it and record the GPU; with inputs twice, to find slots.

    Args:
        program: to run.
        name: name of the trace.
        timeout: time limit of a run, in seconds.
        snapshot: as for `record_network`.
        check: with inputs, build and replay the first run's recording with the second's inputs.

    Returns:
        The run on the given data.

    Raises:
        RecordError: not an aarch64 ELF, a library is missing, the program failed, or no GPU job was submitted;
            with inputs, as `with_slots`, a replay that leaves other results, or an input or result is no float32
            array.
        TraceError: register accesses that cannot be replayed.
        OSError: a file cannot be read.
    """
    given = {slot: read_floats(read_file(path), str(path)) for slot, path in program.inputs.items()}
    plans = [given, {slot: other_values(value) for slot, value in given.items()}] if given else [given]
    for path in program.files:
        if path.is_dir():
            _files_in(path)  # before anything is fetched
    root = ready_root(snapshot)
    if program.packages:
        root = with_packages(root, program.packages)
    jobs = [program_job(root, program, gpu, values) for values in plans]
    plugin = qemu_plugin()

    def run(number: int) -> ProgramRun:
        capture, progress = (Path(folder) / f"{number}.{what}" for what in ("capture", "progress"))
        arguments = {"capture": str(capture), "progress": str(progress)}
        what = f"recording {program.path.name}: run {number + 1} of {len(jobs)}"
        with phase(what, jobs_in(progress, 0)):
            result = boot(jobs[number], root, plugin, arguments, timeout=timeout)
        meta = {"name": name, "recorder": TOOL}
        meta |= {"kernel": root.kernel_name, "driver": root.driver_name}
        notes = {**root.notes, "qemu": qemu_version()}
        trace = convert(capture, ram_end=RAM_END, meta=meta, notes=notes)
        return ProgramRun(trace, result.output, _results(program, result.files))

    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder, ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(run, range(len(jobs))))
    first = runs[0]
    if not given:
        return first
    with phase("following inputs and results"):
        results = first.results, runs[1].results
        trace = with_slots(first.trace, lambda: runs[1].trace, None, (plans[0], plans[1]), results, in_order)
    if not check:
        trace.notes[UNCHECKED] = LEFT_OUT
    elif results[1]:
        check_replay(trace, [(plans[1], results[1])], 0, "what the program left")
    return ProgramRun(trace, first.output, first.results)


def read_floats(data: bytes, what: str) -> Float32:
    """A file's content as little-endian float32.

    Raises:
        RecordError: it is empty, not of whole values, or has some that are not finite.
    """
    if not data or len(data) % 4:
        raise RecordError(f"{what}: expected float32 values of 4 bytes each, found {len(data)} bytes")
    values = np.frombuffer(data, "<f4").astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        at = int(wrong[0])
        raise RecordError(f"{what}: expected finite float32 values, found {values[at]} at offset {at * 4:#x}")
    return values


def other_values(values: Float32) -> Float32:
    """Random values between the least and the largest of the given ones; of equal ones, up to 1 from them."""
    low, high = float(values.min()), float(values.max())
    found = np.random.default_rng(SEED).uniform(low, high if high > low else low + 1, values.shape)
    return found.astype(np.float32)


def program_job(
    root: RecordRoot, program: GuestProgram, gpu: str, values: Mapping[str, Float32] | None = None
) -> GuestJob:
    """What the guest is to do for `record_program`; raises what that raises before the boot.

    Args:
        root: what boots.
        program: to run.
        gpu: key of `machine.placements.PLACEMENTS`.
        values: of inputs, in place of what their files have.
    """
    taken, guest_args = _arguments(program.args)
    given = [path for path in program.files if not path.is_dir()]
    beside = _by_name([program.path, *given, *taken, *program.inputs.values()])
    content = {f"{FOLDER}/{base}": read_file(path, limits.MODEL_BYTES) for base, path in beside.items()}
    for folder in (path for path in program.files if path.is_dir()):
        content |= _in_folder(folder, beside)
    for slot, value in (values or {}).items():
        content[f"{FOLDER}/{program.inputs[slot].name}"] = value.astype("<f4").tobytes()
    content |= _libraries(root, program.path, beside)
    # Mesa's shader cache begins empty: to keep one takes a second run (host_tools/record/shader_cache.py), and
    # what the guest compiles is no part of the recording.
    variables = [f"{name}={value}" for name, value in program.environment.items()]
    words = [*(["env", *variables] if variables else []), f"./{program.path.name}", *guest_args]
    command = f"cd /{FOLDER} && {shlex.join(words)}"
    if program.results:
        command += " || exit $?"
        for at, file in enumerate(program.results.values()):
            command += f"\ncp {shlex.quote(f'./{file}')} /out/{RESULT}{at} 2>/dev/null || true"  # said later
    return GuestJob(command, content, frozenset(content), gpu=gpu)


def _results(program: GuestProgram, files: Mapping[str, bytes]) -> dict[str, Float32]:
    found = {}
    for at, (slot, file) in enumerate(program.results.items()):
        if f"{RESULT}{at}" not in files:
            raise RecordError(f"result {slot}: the program left no file {file} in its folder")
        found[slot] = read_floats(files[f"{RESULT}{at}"], f"result {slot}, the program's file {file}")
    return found


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
        if os.path.realpath(other) != os.path.realpath(path):
            raise RecordError(f"{path} and {other} have one name, and the guest has one folder for both")
    return found


def _in_folder(folder: Path, beside: Mapping[str, Path]) -> dict[str, bytes]:
    """Guest path -> content of all files in a folder, which keeps its name."""
    name = os.path.basename(os.path.realpath(folder))
    if name in beside:
        raise RecordError(f"{folder} and {beside[name]} have one name, and the guest has one folder for both")
    return {
        f"{FOLDER}/{name}/{path.relative_to(folder)}": read_file(path, limits.MODEL_BYTES)
        for path in _files_in(folder)
    }


def _files_in(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if not paths:
        raise RecordError(f"{folder}: a folder without files")
    return paths


def _libraries(root: RecordRoot, program: Path, beside: dict[str, Path]) -> dict[str, bytes]:
    """Guest path -> content of the libraries that the program needs; given ones go where the loader looks."""
    given = {f"{LIBRARIES}/{base}": path for base, path in beside.items()}
    guest_program = f"{FOLDER}/{program.name}"
    try:
        needed = closure(root.tree, [guest_program], {**given, guest_program: program})
    except (ValueError, OSError) as error:  # pyelftools on texts and offsets that lead nowhere
        raise RecordError(f"{program}: a damaged ELF program: {error}") from error
    return {path: read_file(host) for path, host in needed.items() if path != guest_program}
