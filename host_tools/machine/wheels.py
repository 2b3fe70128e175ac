# SPDX-License-Identifier: BSD-2-Clause
"""Wheels of PyPI, unmodified, of pinned versions: ncnn for the guest, pnnx for this machine."""

import hashlib
import platform
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.errors import RecordError
from host_tools.support import programs
from host_tools.support.cache import cache_dir, made_once
from trace_format.files import open_regular, read_file

# The guest's Python is Debian's (root.py); the wheel must be built for it.
PYTHON_VERSION = "3.13"
NCNN_VERSION = "1.0.20261020"
PNNX_VERSION = "20261020"
# glibc versions that the guest's (2.41) satisfies, newest first; pip does not expand the older ones by itself.
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_24_aarch64", "manylinux2014_aarch64")


@dataclass(frozen=True)
class Wheel:
    """One wheel file and its content's hash."""

    name: str
    version: str
    path: Path
    sha256: str


def ncnn_wheel() -> Wheel:
    """The pinned ncnn wheel for the guest; see `guest_wheel`."""
    return guest_wheel("ncnn", NCNN_VERSION)


def guest_wheel(name: str, version: str) -> Wheel:
    """A wheel for the guest, fetched by pip when it is not in the cache.

    Args:
        name: of the package, as in the names of its wheels.

    Raises:
        RecordError: pip cannot fetch it.
    """
    return wheel_for(name, version, PYTHON_VERSION, *PLATFORMS)


def wheel_for(name: str, version: str, python: str, *platforms: str) -> Wheel:
    """A wheel for a version of Python on one of some platforms of one processor; otherwise as `guest_wheel`."""
    options = [word for platform in platforms for word in ("--platform", platform)]
    processor = platforms[0].split("_", 3)[-1]
    tags = f"*_{processor}"
    return _wheel(
        name, version, tags, [*options, "--python-version", python], f"for Python {python} on {processor}"
    )


def pnnx() -> Path:
    """The pinned converter for this machine, a program; fetched by pip when it is not in the cache.

    Its package is no requirement of ours, since that demands PyTorch, of which the program has all that it needs.

    Raises:
        RecordError: pip cannot fetch it.
    """

    def make(folder: Path) -> None:
        # Wheels of other machines, in a cache that several share, are not this one's.
        tag = f"*_{platform.machine()}" if sys.platform == "linux" else "*"
        wheel = _wheel("pnnx", PNNX_VERSION, (f"py3-none-{tag}",), [], "for this machine")
        extract(wheel, folder)
        (folder / "pnnx" / "pnnx").chmod(0o755)

    folder = cache_dir("pnnx") / f"{PNNX_VERSION}-{platform.machine()}"
    return made_once(folder, make) / "pnnx" / "pnnx"


def _wheel(name: str, version: str, tags: Sequence[str], options: Sequence[str], purpose: str) -> Wheel:
    """The wheel with one of these tags (patterns); pip fetches it with these options if the cache lacks it."""
    folder = cache_dir("wheels")
    patterns = [f"{name}-{version}-{tag}.whl" for tag in tags]
    if not _first(folder, patterns):
        # pip writes to a temporary folder and moves the finished wheel.
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            *options,
            "--dest",
            str(folder),
            f"{name}=={version}",
        ]
        result = programs.run(command)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
            raise RecordError(f"pip could not fetch {name} {version} {purpose}: {'; '.join(lines)}")
    path = _first(folder, patterns)
    if path is None:
        raise RecordError(f"pip fetched {name} {version} {purpose}, but no wheel like {' or '.join(patterns)}")
    return Wheel(name, version, path, hashlib.sha256(read_file(path)).hexdigest())


def _first(folder: Path, patterns: Sequence[str]) -> Path | None:
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)


def extract(wheel: Wheel, folder: Path) -> None:
    """Unpack the wheel's modules and libraries into `folder` (a directory of Python's search path)."""
    try:
        with open_regular(wheel.path) as file, zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        raise RecordError(f"{wheel.path}: not a wheel: {error}; remove it and run again") from error
