# SPDX-License-Identifier: BSD-2-Clause
"""Wheels of PyPI, unmodified, of pinned versions and content: ncnn for the guest, pnnx for this machine."""

import hashlib
import platform
import sys
import tempfile
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
NCNN_SHA256 = "63b22234f384ff98883428f081b06f115eb40732733ce2dd02a691359239f746"
PNNX_VERSION = "20261020"
PNNX_SHA256 = {  # processor -> of the wheel
    "aarch64": "13727adb291bf8061a4cc95c8b911ff2459b406144ad3c86e755b6e3f8953427",
    "x86_64": "d50d921e5897293d616444191c1a2dc5366423c81bdb4bd22a985fe8071cf17c",
}
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
    return guest_wheel("ncnn", NCNN_VERSION, NCNN_SHA256)


def guest_wheel(name: str, version: str, sha256: str) -> Wheel:
    """A wheel for the guest, fetched by pip when it is not in the cache.

    Args:
        name: of the package, as in the names of its wheels.
        sha256: of the wheel.

    Raises:
        RecordError: pip cannot fetch it, or it is another file.
    """
    return wheel_for(name, version, sha256, PYTHON_VERSION, *PLATFORMS)


def wheel_for(name: str, version: str, sha256: str, python: str, *platforms: str) -> Wheel:
    """A wheel for a version of Python on one of some platforms of one processor; otherwise as `guest_wheel`."""
    options = [word for platform in platforms for word in ("--platform", platform)]
    purpose = f"for Python {python} on {platforms[0].split('_', 3)[-1]}"
    return _wheel(name, version, sha256, [*options, "--python-version", python], purpose)


def pnnx() -> Path:
    """The pinned converter for this machine, a program; fetched by pip when it is not in the cache.

    Its package is no requirement of ours, since that demands PyTorch, of which the program has all that it needs.

    Raises:
        RecordError: pip cannot fetch it, it is another file, or this machine has a processor that it is not for.
    """
    machine = platform.machine()
    if machine not in PNNX_SHA256:
        raise RecordError(
            f"pnnx {PNNX_VERSION}: expected a processor of {', '.join(PNNX_SHA256)}, found {machine}"
        )

    def make(folder: Path) -> None:
        extract(_wheel("pnnx", PNNX_VERSION, PNNX_SHA256[machine], [], "for this machine"), folder)
        (folder / "pnnx" / "pnnx").chmod(0o755)

    return made_once(cache_dir("pnnx") / f"{PNNX_VERSION}-{machine}", make) / "pnnx" / "pnnx"


def _wheel(name: str, version: str, sha256: str, options: Sequence[str], purpose: str) -> Wheel:
    """The wheel with this content; pip fetches it with these options if the cache lacks it."""
    folder = cache_dir("wheels")
    if (path := _kept(folder, name, version, sha256)) is None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as asked:
            asked.write(f"{name}=={version} --hash=sha256:{sha256}\n")
            asked.flush()
            # pip writes to a temporary folder and moves the finished wheel, whose hash it has checked.
            command = [sys.executable, "-m", "pip", "download", "--require-hashes", "--no-deps"]
            command += ["--only-binary", ":all:", *options, "--dest", str(folder), "-r", asked.name]
            result = programs.run(command)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
            raise RecordError(f"pip could not fetch {name} {version} {purpose}: {'; '.join(lines)}")
        path = _kept(folder, name, version, sha256)
    if path is None:
        raise RecordError(f"pip fetched {name} {version} {purpose}, but no wheel with SHA-256 {sha256}")
    return Wheel(name, version, path, sha256)


def _kept(folder: Path, name: str, version: str, sha256: str) -> Path | None:
    """A wheel in a folder; one of its name with another content is not it."""
    paths = sorted(folder.glob(f"{name}-{version}-*.whl"))
    return next((path for path in paths if hashlib.sha256(read_file(path)).hexdigest() == sha256), None)


def extract(wheel: Wheel, folder: Path) -> None:
    """Unpack the wheel's modules and libraries into `folder` (a directory of Python's search path)."""
    try:
        with open_regular(wheel.path) as file, zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        raise RecordError(f"{wheel.path}: not a wheel: {error}; remove it and run again") from error
