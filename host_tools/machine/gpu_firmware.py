# SPDX-License-Identifier: BSD-2-Clause
"""Firmware files that a GPU's driver loads, from Debian's archive: fetched whole, known by their hash.

Arm's licence (in the package) permits redistribution of the whole file with the licence, for use with Mali
GPUs, and forbids reverse engineering: nothing here reads more of it than the driver does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from host_tools.machine.apt import AptRoot
from host_tools.machine.errors import RecordError
from host_tools.support.cache import cache_dir, locked
from trace_format.files import read_file


@dataclass(frozen=True)
class Firmware:
    """A file of a package.

    Attributes:
        path: where the driver looks for it, without the leading "/".
        sha256: of the file's only version that is used.
    """

    package: str
    component: str
    path: str
    sha256: str


# By the name that gpus/FAMILY/guest.toml has for it.
FIRMWARE = {
    # Interface 1.1.0, git_sha 814b47b551159067b67a37c4e9adda458ad9d852, by the file's own words.
    "mali-arch10.8": Firmware(
        "firmware-misc-nonfree",
        "non-free-firmware",
        "usr/lib/firmware/arm/mali/arch10.8/mali_csffw.bin",
        "43c3c36b914c031d88ae152fd89019d8f99ad41d9879fb5ab7496ed13f7b378b",
    ),
}


def firmware_file(wanted: Firmware, suite: str) -> bytes:
    """The file's bytes.

    Raises:
        RecordError: it cannot be fetched, or it is another version.
    """
    folder = cache_dir("firmware")
    path = folder / wanted.sha256
    with locked(folder / "in-use"):
        if not path.exists():
            apt = AptRoot(suite, "arm64", "firmware", f"firmware {wanted.path}", component=wanted.component)
            apt.download([wanted.package])
            apt.extract(folder / "tree", keep=lambda name: name == wanted.path)
            (folder / "tree" / wanted.path).rename(path)
        data = read_file(path)
    found = hashlib.sha256(data).hexdigest()
    if found != wanted.sha256:
        path.unlink()
        raise RecordError(
            f"{wanted.package} of {suite}: {wanted.path}: expected the file whose SHA-256 is {wanted.sha256}, "
            f"found {found}"
        )
    return data
