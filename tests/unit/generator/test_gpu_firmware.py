# SPDX-License-Identifier: BSD-2-Clause
"""Firmware files of GPUs: what is read of them, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from host_tools.gpus.mali_csf.shared_section import GLOBAL_INPUT, SHARED, SHARED_PAGES, STREAM_INPUT
from host_tools.gpus.mali_csf.stand_in import CODE, stand_in
from tee_replayer.generator.gpu_firmware import ENTRY, HEADER, read, source
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE
from trace_format.errors import GramophoneError
from trace_format.schema import PAGE_BYTES


def test_the_sections_of_a_file() -> None:
    found = read(stand_in(), "file")
    code, shared = found.sections
    assert (code.va, code.flags, code.is_shared) == (CODE, MAP_READ | MAP_EXECUTE, False)
    assert (shared.va, shared.bytes) == (SHARED, SHARED_PAGES * PAGE_BYTES)
    assert (shared.flags, shared.is_shared) == (MAP_READ | MAP_WRITE, True)
    assert found.places[0] == GLOBAL_INPUT - SHARED
    assert found.places[4] == STREAM_INPUT - SHARED
    assert found.pages == 2 + SHARED_PAGES


def test_the_c_file_has_all_of_it() -> None:
    text = source(read(stand_in(), "file"))
    assert text.count("0x") > len(stand_in())
    assert ".shared_page = 2u," in text
    assert f".pages = {2 + SHARED_PAGES}u," in text


def patched(at: int, form: str, *values: int) -> bytes:
    data = bytearray(stand_in())
    struct.pack_into(form, data, at, *values)
    return bytes(data)


FIRST, SECOND = HEADER.size, HEADER.size + ENTRY.size
MALFORMED: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "size: expected 20"),
    "another magic": (lambda: patched(0, "<I", 1), "magic and version"),
    "another version": (lambda: patched(5, "<B", 1), "magic and version"),
    "a table beyond the file": (lambda: patched(16, "<I", 1 << 30), "size of the table"),
    "an entry that does not fit": (lambda: patched(FIRST, "<I", 252 << 8), "table of sections"),
    "an entry of no size": (lambda: patched(FIRST, "<I", 0), "table of sections"),
    "an address inside a page": (lambda: patched(FIRST + 8, "<I", CODE + 4), "whole pages"),
    "a section that ends before it begins": (lambda: patched(FIRST + 12, "<I", CODE - PAGE_BYTES), "whole pages"),
    "data beyond the file": (lambda: patched(FIRST + 20, "<I", 1 << 20), "a section's data"),
    "an address where the driver has pages": (
        lambda: patched(FIRST + 8, "<2I", 0x1000_0000, 0x1000_1000),
        "a section's address: expected below",
    ),
    "no shared section": (lambda: patched(SECOND + 4, "<I", 3), "shared sections: expected 1, found 0"),
    "inputs outside the shared section": (
        lambda: stand_in().replace(struct.pack("<I", GLOBAL_INPUT), struct.pack("<I", 0), 1),
        "addresses of inputs and outputs",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files(name: str) -> None:
    make, says = MALFORMED[name]
    with pytest.raises(GramophoneError, match=says) as error:
        read(make(), "mcu.bin")
    assert str(error.value).startswith("mcu.bin: not a firmware file of a Mali with command streams: ")
