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
    """The pinned ncnn wheel for the guest, fetched by pip when it is not in the cache.

    Raises:
        RecordError: pip cannot fetch it.
    """
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    python = f"cp{PYTHON_VERSION.replace('.', '')}"
    options = [*platforms, "--python-version", PYTHON_VERSION]
    return _wheel("ncnn", NCNN_VERSION, f"{python}-*_aarch64", options, "for the guest")


def pnnx() -> Path:
    """The pinned converter for this machine, a program; fetched by pip when it is not in the cache.

    Its package is no requirement of ours, since that demands PyTorch, of which the program has all that it needs.

    Raises:
        RecordError: pip cannot fetch it.
    """

    def make(folder: Path) -> None:
        # Wheels of other machines, in a cache that several share, are not this one's.
        tag = f"*_{platform.machine()}" if sys.platform == "linux" else "*"
        wheel = _wheel("pnnx", PNNX_VERSION, f"py3-none-{tag}", [], "for this machine")
        extract(wheel, folder)
        (folder / "pnnx" / "pnnx").chmod(0o755)

    folder = cache_dir("pnnx") / f"{PNNX_VERSION}-{platform.machine()}"
    return made_once(folder, make) / "pnnx" / "pnnx"


def _wheel(name: str, version: str, tags: str, options: Sequence[str], purpose: str) -> Wheel:
    """The wheel with these tags (a pattern), fetched by pip with these options when it is not in the cache."""
    folder = cache_dir("wheels")
    pattern = f"{name}-{version}-{tags}.whl"
    if not any(folder.glob(pattern)):
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
    path = next(iter(sorted(folder.glob(pattern))), None)
    if path is None:
        raise RecordError(f"pip fetched {name} {version} {purpose}, but no wheel like {pattern}")
    return Wheel(name, version, path, hashlib.sha256(path.read_bytes()).hexdigest())


def extract(wheel: Wheel, folder: Path) -> None:
    """Unpack the wheel's modules and libraries into `folder` (a directory of Python's search path)."""
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        raise RecordError(f"{wheel.path}: not a wheel: {error}; remove it and run again") from error
