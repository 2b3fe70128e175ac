# SPDX-License-Identifier: BSD-2-Clause
"""How many files a variant of a GPU takes: those written by hand that name the V3D 7.1.

Whatever differs between versions of a family is data in one of these: the rest asks for what it needs to know.
"""

from __future__ import annotations

import re

from tests.support.places import CHECKOUT
from trace_format.emit import GENERATED
from trace_format.emit.register_map import MAPS

FOLDERS = ("trace_format", "signing", "tee_replayer", "baremetal", "host_tools")
TEXTS = {".py", ".toml", ".c", ".h", ".S"}
NAMES = re.compile(r"v3d_?71|qpu_?71", re.IGNORECASE)
V3D = "host_tools/gpus/v3d"
FILES = {
    "trace_format/schema/trace.py",  # its number in traces
    "trace_format/gpus/v3d71.toml",  # its registers
    f"{V3D}/guest.toml",  # where it is in the recording machine
    f"{V3D}/versions.py",
    f"{V3D}/timing.toml",  # how fast a board with it is
    f"{V3D}/vgpu/v3d_version.h",
    f"{V3D}/vgpu/device/v3d_chip.h",
    f"{V3D}/vgpu/device/v3d_device.c",  # by which names it can be made
    f"{V3D}/vgpu/device/v3d71_registers.c",
    f"{V3D}/vgpu/qpu/v3d_qpu_fields.h",
    f"{V3D}/vgpu/qpu/v3d_qpu_decode71.c",  # its code
}


def test_files_of_a_variant() -> None:
    generated = {CHECKOUT / file for file, *_ in MAPS.values()}
    written = (
        path
        for folder in FOLDERS
        for path in (CHECKOUT / folder).rglob("*")
        if path.suffix in TEXTS and path not in generated and not path.is_relative_to(GENERATED)
    )
    named = {str(path.relative_to(CHECKOUT)) for path in written if NAMES.search(path.read_text(encoding="utf-8"))}
    assert named == FILES
    assert len(named) <= 11


def test_a_name_is_found() -> None:
    assert all(NAMES.search(text) for text in ("V3D_71", 'gpu.name == "v3d71"', "qpu71_encoding"))
    assert not NAMES.search("V3D_42 or v3d42")
