# SPDX-License-Identifier: BSD-2-Clause
"""ncnn for the guest: PyPI's own wheel, unmodified, of a pinned version."""

import hashlib
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.errors import RecordError
from host_tools.support import programs
from host_tools.support.cache import cache_dir

# The guest's Python is Debian's (root.py); the wheel must be built for it.
PYTHON_VERSION = "3.13"
NCNN_VERSION = "1.0.20261020"
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
    folder = cache_dir("wheels")
    pattern = f"ncnn-{NCNN_VERSION}-cp{PYTHON_VERSION.replace('.', '')}-*_aarch64.whl"
    if not any(folder.glob(pattern)):
        platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
        # pip writes to a temporary folder and moves the finished wheel.
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            *platforms,
            "--python-version",
            PYTHON_VERSION,
            "--dest",
            str(folder),
            f"ncnn=={NCNN_VERSION}",
        ]
        result = programs.run(command)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
            raise RecordError(f"pip could not fetch ncnn {NCNN_VERSION} for the guest: {'; '.join(lines)}")
    path = next(iter(sorted(folder.glob(pattern))))
    return Wheel("ncnn", NCNN_VERSION, path, hashlib.sha256(path.read_bytes()).hexdigest())


def extract(wheel: Wheel, folder: Path) -> None:
    """Unpack the wheel's modules and libraries into `folder` (a directory of Python's search path)."""
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        raise RecordError(f"{wheel.path}: not a wheel: {error}; remove it and run again") from error
