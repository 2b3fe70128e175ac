# SPDX-License-Identifier: BSD-2-Clause
"""Compiling the host library."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tee_replayer import crypto, features
from tee_replayer.features import operators
from tee_replayer.generator import target
from tee_replayer.generator.status import CORE
from tee_replayer.generator.strictness import WARNINGS
from trace_format.emit import GENERATED
from trace_format.errors import GramophoneError
from trace_format.operators import Operator
from trace_format.profile import Profile

HERE = CORE.parent


def own_sources(
    profile: Profile, on: Collection[str], seam: tuple[str, ...], linked: Collection[Operator]
) -> list[Path]:
    """The C files of ours that a host library is made of.

    Args:
        profile: the GPU.
        on: macros of its features.
        seam: those between it and the crypto libraries.
        linked: the operators that it has.
    """
    return [
        *features.sources(on),
        *(path for path in operators.files(linked) if path.suffix == ".c"),
        target.driver_source(profile),
        *(HERE / "crypto" / name for name in seam),
        HERE / "host" / "host.c",
    ]


def link(
    result: Path, made: Mapping[str, str], own: Sequence[Path], linked: crypto.Linked, command: list[str]
) -> None:
    """Compile all sources, ours with warnings, and make a library of them.

    Args:
        result: the library.
        made: files that are made for it, by name.
        own: sources of ours.
        linked: the crypto libraries.
        command: the compiler, and its flags.

    Raises:
        GramophoneError: the compilation failed.
    """
    with tempfile.TemporaryDirectory(dir=result.parent) as name:
        work = Path(name)
        for file, text in made.items():
            (work / file).write_text(text, encoding="utf-8")
        include = [
            f"-I{path}" for path in (work, CORE, HERE / "drivers", HERE / "host", operators.HERE, GENERATED)
        ]
        include += [f"-isystem{path}" for path in linked.include]
        objects = []
        sources = [*own, *(work / file for file in made if file.endswith(".c")), *linked.sources]
        for index, source in enumerate(sources):
            objects.append(str(work / f"{index}.o"))
            warnings = WARNINGS if source in own else []
            _compile([*command, *warnings, *include, "-c", "-o", objects[-1], str(source)])
        _compile([*command, "-o", str(work / result.name), *objects, *linked.flags])
        os.replace(work / result.name, result)


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise GramophoneError(f"compiling the replayer failed: {' '.join(command)}\n{done.stderr.strip()}")
