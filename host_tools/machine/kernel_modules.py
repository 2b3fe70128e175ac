# SPDX-License-Identifier: BSD-2-Clause
"""Kernel modules of a Debian kernel package in the order in which they must be loaded.

A module names what it needs in its own `.modinfo` section ("depends=a,b"), so no generated index is needed.
"""

import lzma
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

from host_tools.machine.errors import RecordError
from trace_format.files import read_file, read_file_text


def is_wanted(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a file of a kernel package is to be unpacked: of the modules, those in `folders` ("kernel/.../")."""
    rest = path.split("/", 4)[-1]
    return not rest.startswith("kernel/") or rest.endswith("/") or rest.startswith(folders)


def load_order(modules: Path, names: list[str]) -> dict[str, bytes]:
    """Module name -> uncompressed `.ko`, dependencies first.

    Args:
        modules: `usr/lib/modules/VERSION` of the extracted kernel package.
        names: the modules wanted.

    Raises:
        RecordError: a module is neither in the package nor built into the kernel.
    """
    files = {_name(path): path for path in sorted(modules.rglob("*.ko*"))}
    builtin = {_name(Path(line)) for line in read_file_text(modules / "modules.builtin").split()}
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order or name in builtin:
            return
        if name not in files:
            raise RecordError(f"{modules}: kernel module {name} is neither a file nor built in")
        data = _read(files[name])
        for needed in depends(data):
            add(needed)
        order[name] = data

    for name in names:
        add(name)
    return order


def depends(module: bytes) -> list[str]:
    """Names of the modules that an uncompressed module needs directly."""
    section = ELFFile(BytesIO(module)).get_section_by_name(".modinfo")
    fields = section.data().split(b"\0") if section else []
    value = next((field[8:].decode() for field in fields if field.startswith(b"depends=")), "")
    return [name.replace("-", "_") for name in value.split(",") if name]


def _read(path: Path) -> bytes:
    data = read_file(path)
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _name(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")
