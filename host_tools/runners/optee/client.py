# SPDX-License-Identifier: BSD-2-Clause
"""The client library for the normal world, compiled over Debian's libteec, for the emulated machine's Linux."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from host_tools.machine.apt import AptRoot
from host_tools.machine.root import ARCHITECTURE, SUITE
from host_tools.runners.optee.build import CROSS, digest_of, run_program
from host_tools.support.cache import cache_dir, made_once
from host_tools.support.sources import REPLAYER
from tee_replayer.generator.strictness import STRICT
from trace_format.emit import GENERATED
from trace_format.files import read_file

PACKAGE = "optee-client-dev"
LIBRARY = "libgramophone_tee.so"
TRIPLET = "aarch64-linux-gnu"
SOURCES = REPLAYER / "optee" / "client"
INCLUDES = (SOURCES.parent, SOURCES.parent / "ta", SOURCES.parent.parent / "core", GENERATED)


def libteec() -> Path:
    """Folder with `include` and `lib` of libteec: its header, and the library for aarch64.

    Raises:
        RecordError: the package cannot be obtained.
    """
    return made_once(cache_dir("optee", "packages") / "libteec", _extract)


def _extract(fresh: Path) -> None:
    apt = AptRoot(SUITE, ARCHITECTURE, "optee", f"{PACKAGE}, which OP-TEE's clients link")
    apt.download([PACKAGE])
    with tempfile.TemporaryDirectory(dir=fresh.parent) as name:
        usr = Path(name) / "usr"
        apt.extract(Path(name), keep=lambda path: path.startswith("usr/include/tee") or "/libteec." in path)
        shutil.copytree(usr / "include", fresh / "include")
        shutil.copytree(usr / "lib" / TRIPLET, fresh / "lib", symlinks=True)


def library() -> Path:
    """The shared library for aarch64.

    Raises:
        RunnerError: the cross compiler is missing, or it does not compile.
        RecordError: libteec cannot be obtained.
    """
    teec = libteec()
    files = [file for folder in (SOURCES, *INCLUDES) for file in sorted(folder.iterdir()) if file.is_file()]
    kept = cache_dir("optee", "clients") / digest_of((file.name, read_file(file)) for file in files)
    kept.mkdir(exist_ok=True)
    if not (kept / LIBRARY).exists():
        with tempfile.TemporaryDirectory(dir=kept) as out:
            compile_library(Path(out), CROSS, teec / "lib").replace(kept / LIBRARY)
    return kept / LIBRARY


def compile_library(out: Path, cross: str, libraries: Path) -> Path:
    """Make the client library with its own Makefile; the shared one.

    Args:
        out: folder for what is built.
        cross: prefix of the compiler; empty for this machine's.
        libraries: folder with libteec.so for it.
    """
    out.mkdir(parents=True, exist_ok=True)
    includes = [f"-I{folder}" for folder in INCLUDES] + [f"-isystem{libteec() / 'include'}"]
    settings = {
        "O": out,
        "CROSS_COMPILE": cross,
        "TEEC_CFLAGS": " ".join(includes),
        "TEEC_LIBS": f"-L{libraries} -lteec",
        "EXTRA_CFLAGS": " ".join(STRICT),
    }
    run_program(
        ["make", "-s", "-C", str(SOURCES), *(f"{name}={value}" for name, value in settings.items())],
        "the client library",
    )
    return out / LIBRARY
