# SPDX-License-Identifier: BSD-2-Clause
"""What a trace claims to hold is compared with limits before memory is taken for it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lz4.block
import numpy as np
import pytest

from host_tools.audit.lint import lint
from signing.delivery import Delivery
from signing.sign import signature_of
from signing.verify import Verdict, verify_delivery
from tests.support.signing_samples import ES256
from tests.support.trace_samples import Damage, sample
from trace_format import assembly, layout, limits, packing
from trace_format.actions import MAP_READ, Op, action, array_of
from trace_format.errors import CodecError, LimitError, SlotError
from trace_format.schema import Codec, DType, SectionType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

MIB = limits.MIB


@contextmanager
def little_memory() -> Iterator[None]:
    """What is done takes no more than 64 MiB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


def claiming(type: SectionType, raw_bytes: int, stored: bytes, number: int = 1) -> bytes:
    """The sample, a section of which is said to hold so much; hashes and sizes agree."""
    _, parts = layout.disassemble(sample().build(compress=False))
    found = []
    for part in parts:
        if part.type == SectionType.CHUNKS:
            continue
        copies = number if part.type == type else 1
        changed = layout.Part(type, stored, part.flags, Codec.LZ4, raw_bytes) if part.type == type else part
        found += [changed] * copies
    head = [part for part in found if part.type in (SectionType.MANIFEST, SectionType.SLOTS)]
    body = [part for part in found if part not in head]
    return unchecked(head, body)


def unchecked(head: list[layout.Part], body: list[layout.Part]) -> bytes:
    """A file that its maker did not look at again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout.Parts, "check_content", lambda parts, file_bytes: None)
        return assembly.assemble(head, body, 65536, 0)


PACKED = lz4.block.compress(bytes(4 * MIB), store_size=False)  # 16 KiB


def large(stored: bytes) -> bytes:
    """A trace whose image is 2 GiB, in eight sections."""
    damage = Damage(claiming(SectionType.IMAGE, 255 * MIB, stored, number=8))
    damage.manifest("image_bytes", 8 * 255 * MIB)
    damage.manifest("carveout_bytes", 1 << 32)
    return bytes(damage.data)


def test_the_content_of_all_sections_together() -> None:
    """A stored byte of LZ4 can stand for 255: a file of 4 MB would be 1 GiB, and one of 168 MB took 11."""
    stored = PACKED * 140
    data = large(stored)
    most = limits.decoded_bytes(len(data))
    with little_memory(), pytest.raises(LimitError, match="size of all sections' content in bytes") as error:
        Trace.parse(data, "small.gtr")
    assert str(error.value).startswith("small.gtr: ")
    assert error.value.expected == f"at most {most}"
    assert int(str(error.value.found)) > 8 * 255 * MIB


def test_a_signature_does_not_help_a_trace_that_claims_too_much() -> None:
    """It verifies, for nothing is decoded to do so; its content is refused by the same words."""
    trace = large(PACKED * 140)
    with little_memory():
        signed = Delivery(signature_of(trace, ES256) + trace)
        assert verify_delivery(signed, [ES256.public]).verdict is Verdict.VERIFIED
        with pytest.raises(LimitError, match="size of all sections' content in bytes"):
            signed.parse()


@pytest.mark.parametrize(
    ("file_bytes", "most"),
    [(0, 256 * MIB), (4 * MIB, 256 * MIB), (5 * MIB, 320 * MIB), (16 * MIB, 1024 * MIB), (900 * MIB, 1024 * MIB)],
)
def test_how_much_a_file_may_hold(file_bytes: int, most: int) -> None:
    assert limits.decoded_bytes(file_bytes) == most


def test_a_section_is_no_more_than_its_codec_can_make_of_it() -> None:
    """200 MiB would be within the limit, and memory was taken for them before 16 KiB were decoded."""
    damage = Damage(claiming(SectionType.IMAGE, 200 * MIB, PACKED))
    damage.manifest("image_bytes", 200 * MIB)
    damage.manifest("carveout_bytes", 1 << 32)
    with (
        little_memory(),
        pytest.raises(CodecError, match=f"size of the LZ4 data: expected enough for {200 * MIB}"),
    ):
        Trace.parse(bytes(damage.data))


def test_a_file_of_40_gib_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(40 << 30)
    with pytest.raises(LimitError, match="size of the file in bytes: expected at most"):
        Trace.read(tmp_path / "hole")


def test_slots_are_counted_before_they_are_read() -> None:
    damage = Damage(sample().build(compress=False))
    count = 100_000
    damage.manifest("slot_count", count)
    data = claiming(SectionType.SLOTS, count * packing.size_of("slot"), PACKED * 4)
    _, parts = layout.disassemble(data)
    manifest = layout.Part(SectionType.MANIFEST, bytes(layout.disassemble(bytes(damage.data))[1][0].stored))
    body = list(parts[3:])
    with little_memory(), pytest.raises(SlotError, match="too many slots"):
        Trace.parse(unchecked([manifest, parts[1]], body))


def test_actions_and_notes() -> None:
    nothing = np.zeros(limits.ACTIONS + 1, sample().actions.dtype)
    nothing["op"] = Op.REPLAY_START
    damage = Damage(claiming(SectionType.ACTIONS, nothing.nbytes, lz4.block.compress(nothing, store_size=False)))
    damage.manifest("action_count", len(nothing))
    with little_memory(), pytest.raises(LimitError, match=f"actions: expected at most {limits.ACTIONS}, found"):
        Trace.parse(bytes(damage.data))
    data = claiming(SectionType.NOTES, limits.NOTES_BYTES + 1, PACKED * 17)
    with pytest.raises(LimitError, match="size of the notes in bytes"):
        Trace.parse(data)


def many_pages() -> Trace:
    """Maps the same 4 GiB of a carve-out again and again."""
    pages = 1 << 20
    maps = [action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=pages, va_page=0, frame=0)] * 3
    return Trace("mali_g71", array_of(maps), b"", 1 << 32, 1 << 32, meta={"name": "small"})


def wide_slot() -> Trace:
    """Two elements, so far from each other that nobody could list the pages between."""
    slot = Slot("x", SlotKind.INPUT, DType.UINT8, (0x8000, 2), ((1 << 32) - 1, 1), 0)
    return Trace("mali_g71", array_of([]), b"", 1 << 32, 1 << 48, slots=[slot], meta={"name": "small"})


@pytest.mark.parametrize(("trace", "what"), [(many_pages, "actions map"), (wide_slot, "slots span")])
def test_pages_that_somebody_would_have_to_list(trace: object, what: str) -> None:
    data = trace().build()  # type: ignore[operator]
    assert len(data) < 4096
    with little_memory(), pytest.raises(LimitError, match=f"pages that the {what}: expected at most 2097152"):
        Trace.parse(data)


def test_lint_keeps_one_mask_for_pages_that_are_filled_as_a_whole() -> None:
    """Clearing a carve-out of 4 GiB took as much memory."""
    clear = action(Op.CLEAR, bytes=(1 << 30), target=4096)
    with little_memory():
        lint(Trace("mali_g71", array_of([clear]), b"", 1 << 32, 1 << 32, meta={"name": "small"}))
