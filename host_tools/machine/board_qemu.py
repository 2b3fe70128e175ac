# SPDX-License-Identifier: BSD-2-Clause
"""A QEMU that has the machine "raspi4b": the system's own, or that of Debian's packages.

An older Debian's QEMU lacks the machine. Then a newer suite's package is unpacked in the user's cache folder with
all of its libraries, and their own dynamic linker starts it, because the system's C library is too old for them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from host_tools.machine.apt import AptRoot
from host_tools.machine.errors import RecordError
from host_tools.support import programs
from host_tools.support.cache import cache_dir, made_once
from host_tools.vgpu.build import QEMU, qemu_series
from trace_format.files import open_regular

SERIES = "10.0"  # of those that the plugin knows, the one with this machine
SUITE, PACKAGE = "trixie", "qemu-system-arm"
PURPOSE = "QEMU with the machine raspi4b"
PROGRAM, DATA = f"usr/bin/{QEMU}", "usr/share/qemu"
# The folder is found at each start, because it is moved when it is complete.
START = """#!/bin/sh -e
root=$(dirname "$(readlink -f "$0")")
exec "$root{loader}" --library-path "{libraries}" "$root/{program}" -L "$root/{data}" "$@"
"""


def raspi4b_qemu() -> str:
    """Name or path of a QEMU with that machine.

    Raises:
        RecordError: there is none, and its packages cannot be fetched.
    """
    if shutil.which(QEMU) and qemu_series() == SERIES:
        return QEMU
    apt = AptRoot(SUITE, _architecture(), "qemu", PURPOSE)
    debs = apt.download([PACKAGE])
    key = hashlib.sha256("\0".join([START, *(deb.sha256 for deb in debs)]).encode()).hexdigest()[:16]
    return str(made_once(cache_dir("qemu") / key, lambda folder: _unpack(apt, folder)) / QEMU)


def _architecture() -> str:
    try:
        return programs.run(["dpkg", "--print-architecture"]).stdout.strip()
    except FileNotFoundError:
        raise RecordError(
            f"{PURPOSE}: expected QEMU {SERIES}, or Debian's dpkg to unpack it, found neither"
        ) from None


def _unpack(apt: AptRoot, folder: Path) -> None:
    """Fill `folder`: programs, libraries and data of the packages, and what starts QEMU."""
    apt.extract(folder, keep=lambda path: path == PROGRAM or path.startswith(("usr/lib", DATA)))
    with open_regular(folder / PROGRAM) as file:
        segments = ELFFile(file).iter_segments()
        loader = next(part.get_interp_name() for part in segments if isinstance(part, InterpSegment))
    loader = loader if (folder / loader.lstrip("/")).exists() else f"/usr{loader}"  # /lib is a link to usr/lib
    libc = next(folder.glob("usr/lib/*/libc.so.6")).parent.relative_to(folder)
    start = folder / QEMU
    text = START.format(loader=loader, libraries=f"$root/{libc}", program=PROGRAM, data=DATA)
    start.write_text(text, encoding="ascii")
    os.chmod(start, 0o755)
