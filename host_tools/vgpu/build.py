# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the virtual GPU: the shared library for Python, and the plugin for QEMU. As a program both, which
`make setup` runs: at the first use they would take a minute.

Results are kept in a build folder under a name made from a hash of everything that went in, so a build happens
once for a given state of the sources and a stale one is never used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from host_tools.support import programs
from host_tools.support.cache import cache_dir
from host_tools.support.gpu_folders import FOLDERS as GPUS
from host_tools.support.progress import phase
from tee_replayer.generator.strictness import WARNINGS
from trace_format.emit import GENERATED
from trace_format.errors import GramophoneError
from trace_format.files import read_file, read_file_text

HERE = Path(__file__).resolve().parent
# The C models of the GPU families; what they share is in this folder. A family may have folders of its own by
# subject, as its device and its shader engine.
FAMILIES = [folder / "vgpu" for folder in GPUS]
FOLDERS = (
    HERE,
    *(folder for family in FAMILIES for folder in (family, *sorted(filter(Path.is_dir, family.glob("*"))))),
)
QEMU_DEVICE = HERE / "qemu"
CFLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-pthread", "-std=gnu11", "-fPIC", *WARNINGS]
QEMU = "qemu-system-aarch64"
# QEMU release series -> plugin interface version that a plugin for it declares. The device uses QEMU's internal
# functions (qemu/qemu_abi.h), so only series that it was tried with are here.
QEMU_PLUGIN_VERSIONS = {"7.2": 1, "10.0": 2}


class BuildError(GramophoneError):
    """A compiler or QEMU is missing or of an unknown version, or a compilation failed."""


def build_folder() -> Path:
    """Folder for build results: build/vgpu in the checkout, else in the user's cache folder."""
    checkout = HERE.parent.parent
    local = checkout / "build" / "vgpu"
    if (checkout / "pyproject.toml").exists():
        with contextlib.suppress(OSError):
            local.mkdir(parents=True, exist_ok=True)
        if os.access(local, os.W_OK):
            return local
    return cache_dir("vgpu")


@dataclass(frozen=True)
class Double:
    """A C file in place of a part of a model, for tests of the rest.

    Attributes:
        source: the file.
        replaces: prefix of the names of the files that it replaces.
    """

    source: Path
    replaces: tuple[str, ...]


def gpu_sources(double: Double | None = None) -> list[Path]:
    """The C files of the virtual GPU itself; with a double, of a part of it."""
    recorder = recorder_sources()
    sources = [path for folder in FOLDERS for path in sorted(folder.glob("*.c")) if path not in recorder]
    if double is None:
        return sources
    return [path for path in sources if not path.name.startswith(double.replaces)] + [double.source]


def recorder_sources() -> list[Path]:
    """The C files of the recorder in the device."""
    return [HERE / "recorder.c", HERE / "output_file.c", HERE / "page_contents.c"]


def compiler() -> str:
    """$CC; else clang where it makes faster code and is there, else cc.

    GCC makes vector code of the loops over lanes with conditions only where there are masks (AVX-512); clang does
    it with AVX2, too, and the virtual V3D then executes three to five times as many instructions a second
    (clang 14 and GCC 12, dispatches of MobileNet and SqueezeNet).
    """
    name = os.environ.get("CC", "")
    if not name:
        name = "clang" if "avx512f" not in _machine().split() and shutil.which("clang") else "cc"
    if shutil.which(name) is None:
        raise BuildError(f"no C compiler: {name!r} is not installed (apt-get install gcc)")
    return name


def _machine() -> str:
    """What -march=native depends on."""
    try:
        lines = read_file_text(Path("/proc/cpuinfo")).splitlines()
    except OSError:
        return os.uname().machine
    return "\n".join(line for line in lines if line.startswith(("flags", "Features", "model name")))[:8192]


def shared_object(name: str, sources: Sequence[Path], flags: Sequence[str] = ()) -> Path:
    """Compiles C files into one shared object, several at a time, unless that was done before.

    Args:
        name: first part of the file name.
        sources: C files. Every header here, of the families and of the schema is taken into account.
        flags: further compiler flags.

    Returns:
        Path of the shared object.

    Raises:
        BuildError: no compiler, or the compilation failed (its output is in the message).
    """
    command = [compiler(), *CFLAGS, *flags]
    digest = hashlib.sha256("\0".join([*command, _machine()]).encode())
    headers = [path for folder in (*FOLDERS, QEMU_DEVICE, GENERATED) for path in sorted(folder.glob("*.h"))]
    for path in [*sources, *headers]:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(read_file(path)).digest())
    target = build_folder() / f"{name}-{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, phase(f"compiling the virtual GPU: {name}"):
        output = Path(folder) / target.name
        objects = [Path(folder) / f"{number}.o" for number in range(len(sources))]
        command += [f"-I{path}" for path in (*FOLDERS, GENERATED)]

        def run(words: Sequence[object]) -> None:
            result = programs.run([*command, *map(str, words)])
            if result.returncode != 0:
                raise BuildError(f"compiling {name} failed:\n{result.stderr.strip()}")

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            try:
                list(pool.map(lambda pair: run(["-c", "-o", *pair]), zip(objects, sources, strict=True)))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        run(["-shared", "-o", output, *objects, "-lm"])
        os.replace(output, target)
    return target


def library(double: Double | None = None) -> Path:
    """The virtual GPU as a shared library with the interface of vgpu.h; `double` as in gpu_sources."""
    return shared_object("vgpu", gpu_sources(double))


def qemu_series(qemu: str = QEMU) -> str:
    """Release series of a QEMU binary, such as "7.2".

    Raises:
        BuildError: QEMU is missing or does not print its version.
    """
    path = shutil.which(qemu)
    if path is None:
        raise BuildError(f"{qemu} is not installed (apt-get install qemu-system-arm)")
    output = programs.run([path, "--version"]).stdout
    match = re.search(r"version (\d+\.\d+)", output)
    if match is None:
        raise BuildError(f"{path} --version: expected 'version N.N', found {output[:80]!r}")
    return match.group(1)


def qemu_plugin(qemu: str = QEMU, double: Double | None = None) -> Path:
    """The QEMU plugin that attaches the virtual GPU and the recorder.

    Args:
        qemu: the QEMU that it is for (name or path).
        double: as in gpu_sources.

    Raises:
        BuildError: as shared_object, or an unknown QEMU release series.
    """
    series = qemu_series(qemu)
    if series not in QEMU_PLUGIN_VERSIONS:
        known = ", ".join(QEMU_PLUGIN_VERSIONS)
        raise BuildError(f"{qemu} is of series {series}; the plugin knows the internals of {known} only")
    major, minor = series.split(".")
    flags = [
        "-fvisibility=hidden",  # no symbol of ours may clash with one of QEMU's
        f"-DQEMU_MAJOR={major}",
        f"-DQEMU_MINOR={minor}",
        f"-DPLUGIN_VERSION={QEMU_PLUGIN_VERSIONS[series]}",
    ]
    own = sorted(QEMU_DEVICE.glob("*.c"))
    sources = [*own, *recorder_sources(), *gpu_sources(double)]
    return shared_object("qemu_plugin", sources, flags)


def plugin_option(plugin: Path, arguments: Mapping[str, str]) -> str:
    """Value of QEMU's option -plugin: the device plugin and its arguments.

    Args:
        plugin: from `qemu_plugin`.
        arguments: as qemu/arguments.h says; a comma in one is written twice.
    """
    words = [str(plugin), *(f"{name}={value}" for name, value in arguments.items())]
    return ",".join(word.replace(",", ",,") for word in words)
