# SPDX-License-Identifier: BSD-2-Clause
"""Where sections lie in a file: which there may be, in which pieces, how large chunks are."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

from tests.support.trace_edits import NOTES, PLAIN, same
from tests.support.trace_samples import Damage, sample
from trace_format import assembly, codec, errors, layout, schema
from trace_format.schema import SectionType
from trace_format.trace import Trace


def test_large_images_are_cut_into_sections() -> None:
    noise = np.random.default_rng(1).bytes(1 << 18)
    image = (noise + bytes(1 << 18)) * 6
    trace = sample().with_(image=image, carveout_bytes=4 << 20, actions=sample().actions[:1])
    data = trace.build()
    assert 2 < Damage(data).types.count(SectionType.IMAGE) <= codec.MAX_IMAGE_SECTIONS
    assert Trace.parse(data).image == image


def test_unknown_optional_sections_are_passed_over() -> None:
    damage = Damage(PLAIN)
    damage.entry(NOTES, "type", 99)
    assert damage.entry(NOTES, "flags") == schema.SECTION_FLAG_OPTIONAL
    trace = Trace.parse(bytes(damage.data))
    assert trace.notes == {}
    assert same(trace, sample().with_(notes={}))


def test_two_notes_are_refused() -> None:
    notes = layout.Part(SectionType.NOTES, b"{}", schema.SECTION_FLAG_OPTIONAL)
    _, parts = layout.disassemble(PLAIN)
    with pytest.raises(errors.SectionError, match="order of the body's sections"):
        assembly.assemble(list(parts[:2]), [*parts[3:5], notes, notes], 4096, 0)


@pytest.mark.parametrize("way", [{}, {"compress": False}, {"chunk_bytes": 4096}], ids=str)
def test_pieces_are_what_is_built(way: dict[str, Any]) -> None:
    trace = sample().with_(image=np.random.default_rng(1).bytes(12_000))
    data, pieces = trace.build(**way), trace.pieces(**way)
    assert b"".join(pieces) == data
    head = bytes(pieces[0])
    assert len(head) == layout.read_header(data)["head_bytes"]
    file = assembly.with_zeros(head)
    assert bytes(file) == head + bytes(len(data) - len(head))


@pytest.mark.parametrize(
    ("mib", "chunk_bytes"), [(0, 16384), (500, 16384), (540, 32768), (1000, 32768), (1100, 65536), (4096, 65536)]
)
def test_chunks_are_as_large_as_the_head_has_room_for_their_hashes(mib: int, chunk_bytes: int) -> None:
    """A recording of VGG-16 has an image of 528 MiB. Nobody reads these pages, so they take no memory."""
    head = [layout.Part(SectionType.MANIFEST, bytes(512)), layout.Part(SectionType.SLOTS, bytes(10_000))]
    body = []
    if mib:
        body.append(layout.Part(SectionType.IMAGE, memoryview(mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE))))
    assert assembly.chunk_bytes_for(head, body) == chunk_bytes
