# SPDX-License-Identifier: BSD-2-Clause
"""The compilers that there are, and what each is to the recorder: a program that makes a `Plan` of an ONNX file.

A compiler is one file here and its row in `COMPILERS` (docs/PORTING.md). It runs in a process of its own, in a
sandbox: `python -m PROGRAM MODEL.onnx PLAN [FOLDER]`, the folder for who chooses kernels, with `--wide` before if
the compiler knows that. The model has its weights inside and its shapes fixed, and ONNX Runtime has simplified it;
what is made of it is tried on this machine, and recorded, by what is the same for all.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from host_tools.support.cache import cache_dir
from host_tools.support.messages import LOG

if TYPE_CHECKING:  # help of commands names compilers, and waits for nothing else
    from host_tools.record.compiled.plan import Plan

TIMEOUT_S = 1800.0
WIDE = "--wide"
PROGRESS = "GRAMOPHONE_PROGRESS"  # variable: the file that `compiling` writes to


@dataclass(frozen=True)
class Compiler:
    """A compiler.

    Attributes:
        name: `record onnx --compiler NAME`; a distribution on PyPI, whose version a recording's notes have.
        program: the module that is run, whose `main` is `program_of` its function.
        vectors: its kernels can load and store vectors.
    """

    name: str
    program: str
    vectors: bool = False

    @property
    def version(self) -> str:
        """Name and version."""
        from importlib.metadata import version

        return f"{self.name} {version(self.name)}"

    def plan(self, data: bytes, folder: Path | None = None, *, wide: bool = False) -> Plan:
        """What it makes of an ONNX file; kept in the cache, for other GPUs and for the next time.

        Args:
            data: the file.
            folder: that the program may also read and write; its caller knows why.
            wide: kernels load and store vectors (`Family.loads_vectors`), if it can do that.

        Raises:
            NetworkError: it does not take the network, or takes too long; in its own words.
        """
        from host_tools.record.compiled.plan import Plan
        from host_tools.support import plain
        from host_tools.support.files import write_atomically
        from trace_format.files import read_file

        wide = wide and self.vectors
        if folder is not None:  # what is made depends on what is in it
            found: Plan = plain.loads(Plan, self._compiled(data, folder, wide))
            return found
        kept = cache_dir("plans") / self.kept_as(data, wide=wide)
        if not kept.exists():
            write_atomically(kept, self._compiled(data, None, wide))
        os.utime(kept)  # it was used
        found = plain.loads(Plan, read_file(kept))
        return found

    def kept_as(self, data: bytes, *, wide: bool) -> str:
        """Name in the cache of what it makes of a file: by it, the version, and our code beside the program."""
        from importlib.util import find_spec

        from trace_format.files import read_file

        program = find_spec(self.program)
        assert program is not None, self.program
        own = sorted(Path(str(program.origin)).parent.glob("*.py"))
        parts = [self.version, str(wide), *(hashlib.sha256(read_file(path)).hexdigest() for path in own)]
        return hashlib.sha256("\0".join(parts).encode() + b"\0" + data).hexdigest()[:32]

    def _compiled(self, data: bytes, folder: Path | None, wide: bool) -> bytes:
        """A plan's file, from the compiler."""
        from host_tools.record.preflight import NetworkError
        from host_tools.support import programs
        from host_tools.support.confined import PYTHON
        from host_tools.support.progress import kernels_in, phase
        from host_tools.support.sandbox import Sandbox
        from trace_format.files import read_file

        with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
            model, plan, progress = (Path(name) / file for file in ("model.onnx", "plan", "progress"))
            model.write_bytes(data)
            folders = [folder] if folder else []
            command = [
                *PYTHON,
                self.program,
                *([WIDE] if wide else []),
                *map(str, (model, plan, *folders)),
            ]
            try:
                sandbox = Sandbox(writes=(Path(name), *folders))
                env = {**os.environ, PROGRESS: str(progress)}
                with phase(f"compiling the network with {self.name}", kernels_in(progress)):
                    done = programs.run(command, timeout_s=TIMEOUT_S, sandbox=sandbox, env=env)
            except subprocess.TimeoutExpired as error:
                raise NetworkError(f"{self.name} takes more than {error.timeout:.0f} s to compile it") from None
            if done.returncode or not plan.exists():
                *more, said = done.stderr.strip().splitlines() or ["it said nothing"]
                LOG.debug("%s: %s", self.name, " | ".join(more))
                raise NetworkError(f"{self.name} cannot compile it: {said}")
            return read_file(plan)


class Kernels(Protocol):
    """Who chooses a plan's kernels in place of the compiler; an extra may have it.

    Attributes:
        option: with which it was asked for, for messages.
    """

    option: str

    def planned(
        self, compiler: Compiler, data: bytes, *, wide: bool, gpu: str, timeout: float, snapshot: str
    ) -> tuple[Plan, dict[str, Any]]:
        """The plan of an ONNX file, and what the trace's notes say of it.

        Args:
            compiler: who compiles it.
            data, wide: as `Compiler.plan`.
            gpu, timeout, snapshot: as for `record_plan`.

        Raises:
            NetworkError: the compiler does not take the network, or kernels cannot be chosen for the GPU.
            RecordError: the guest does not run them.
        """


TINYGRAD = Compiler("tinygrad", "host_tools.record.compiled.schedule", vectors=True)
COMPILERS = {compiler.name: compiler for compiler in (TINYGRAD,)}
AUTO, NCNN, FASTEST = "auto", "ncnn", "fastest"
CHOICES = (AUTO, NCNN, *COMPILERS, FASTEST)  # of --compiler; the first is the default


def compiling(number: int, total: int) -> None:
    """Tell who waits for the compiler's program that it begins a kernel, from 0, of so many."""
    if file := os.environ.get(PROGRESS):
        Path(file).write_bytes(number.to_bytes(8, "little") + total.to_bytes(8, "little"))


def program_of(compiled: Callable[..., Plan]) -> int:
    """The `main` of a compiler: for what is not compiled, exit status 1 and the reason as the last line on
    standard error.

    Args:
        compiled: makes a plan of an ONNX file, and has a folder after it if `plan` was given one, and
            `wide=True` where vectors are asked for. The words of a NotImplementedError are for users; of whatever
            else it raises, users are told that it did, and `--verbose` says what.
    """
    from host_tools.support import plain

    model, plan, *folder = (Path(argument) for argument in sys.argv[1:] if argument != WIDE)
    try:
        found = compiled(model, *folder, **({"wide": True} if WIDE in sys.argv else {}))
    except Exception as error:  # whatever a front end raises for a network that it does not know
        traceback.print_exc()
        is_said = isinstance(error, NotImplementedError) and str(error)
        said = str(error) if is_said else "it fails on this network, for a reason that only '--verbose' says"
        print(" ".join(said.split())[:400], file=sys.stderr)
        return 1
    plan.write_bytes(plain.dumps(found))
    return 0
