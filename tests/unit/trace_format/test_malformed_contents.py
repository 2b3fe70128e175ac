# SPDX-License-Identifier: BSD-2-Clause
"""A malformed manifest, slot, packed section, note or action is refused with its own error and offset."""

from __future__ import annotations

import pytest

from tests.support.trace_edits import (
    ANY_BODY,
    JSON_DEEP,
    PACKED_NOTE,
    SLOTS_AT,
    START,
    Malformed,
    assert_refused,
    at_manifest,
    at_slot,
    both,
    entry,
    in_body,
    manifest,
    put,
    slot,
    stored_as,
)
from tests.support.trace_samples import CARVEOUT, list_item
from trace_format import errors

# name, edit of the plain sample, class, offset, message
MALFORMED: list[Malformed] = [
    # manifest
    ("name not UTF-8", put(at_manifest("name"), b"\xff"), errors.ReservedError, at_manifest("name"), "not UTF-8"),
    (
        "NUL in the name",
        put(at_manifest("name") + 2, b"\0"),
        errors.ReservedError,
        at_manifest("name"),
        "after the text",
    ),
    (
        "kernel not UTF-8",
        put(at_manifest("kernel"), b"\xc3("),
        errors.ReservedError,
        at_manifest("kernel"),
        "not UTF-8",
    ),
    (
        "manifest reserved",
        put(SLOTS_AT - 1, b"\1"),
        errors.ReservedError,
        at_manifest("reserved"),
        "manifest: reserved",
    ),
    ("GPU 0", manifest("gpu", 0), errors.ProfileError, None, "no profile for GPU number 0"),
    ("GPU 4000", manifest("gpu", 4000), errors.ProfileError, None, "no profile for GPU number 4000"),
    ("identity", manifest("gpu_id", 0x33), errors.ManifestError, None, "identity register"),
    ("identity mask", manifest("gpu_id_mask", 0), errors.ManifestError, None, "identity register"),
    (
        "register policy",
        manifest("profile_id", 1),
        errors.OtherPolicyError,
        None,
        "made for another register policy",
    ),
    ("trace_id", put(at_manifest("trace_id"), ANY_BODY), errors.ManifestError, None, "trace_id: expected"),
    ("carve-out of 0", manifest("carveout_bytes", 0), errors.ManifestError, None, "image is larger"),
    (
        "carve-out odd",
        manifest("carveout_bytes", CARVEOUT + 1),
        errors.ManifestError,
        None,
        "carveout_bytes is out",
    ),
    (
        "carve-out over 4 GiB",
        manifest("carveout_bytes", (1 << 32) + 4096),
        errors.ManifestError,
        None,
        "carveout_bytes is",
    ),
    ("image over the carve-out", manifest("carveout_bytes", 4096), errors.ManifestError, None, "image is larger"),
    ("image_bytes", manifest("image_bytes", 4096), errors.ManifestError, None, "size of the image"),
    ("va_bytes 0", manifest("va_bytes", 0), errors.ManifestError, None, "va_bytes is out of range"),
    ("va_bytes odd", manifest("va_bytes", 4097), errors.ManifestError, None, "va_bytes is out of range"),
    ("va_bytes over the MMU's", manifest("va_bytes", 1 << 33), errors.ManifestError, None, "at most 2^32"),
    ("action_count", manifest("action_count", 17), errors.SectionError, START[3], "size of the actions section"),
    ("job_count", manifest("job_count", 2), errors.ManifestError, None, "number of jobs: expected 1, found 2"),
    ("slot_count", manifest("slot_count", 1), errors.SectionError, SLOTS_AT, "size of the slots section"),
    # slots
    ("slot name empty", put(at_slot(0, "name"), bytes(32)), errors.DuplicateSlotError, None, "name ''"),
    (
        "slot name twice",
        put(at_slot(0, "name"), b"output"),
        errors.DuplicateSlotError,
        None,
        "'output' is empty or used twice",
    ),
    (
        "slot name not UTF-8",
        put(at_slot(1, "name"), b"\xfe"),
        errors.ReservedError,
        at_slot(1, "name"),
        "not UTF-8",
    ),
    ("slot kind 0", slot(0, "kind", 0), errors.SlotError, at_slot(0, "name"), "kind or element type"),
    ("slot kind 5", slot(1, "kind", 5), errors.SlotError, at_slot(1, "name"), "kind or element type"),
    ("slot dtype 0", slot(0, "dtype", 0), errors.SlotError, at_slot(0, "name"), "kind or element type"),
    ("slot dtype 9", slot(0, "dtype", 9), errors.SlotError, at_slot(0, "name"), "kind or element type"),
    ("rank 0", slot(0, "rank", 0), errors.SlotError, at_slot(0, "name"), "rank of a slot"),
    (
        "rank 7",
        slot(1, "rank", 7),
        errors.SlotError,
        at_slot(1, "name"),
        "rank of a slot: expected 1 to 6, found 7",
    ),
    ("slot flag 1", slot(0, "flags", 2), errors.ReservedError, at_slot(0, "name"), "reserved slot flags"),
    (
        "slot reserved",
        put(at_slot(1, "reserved"), b"\1"),
        errors.ReservedError,
        at_slot(1, "reserved"),
        "slot: reserved",
    ),
    (
        "slot reserved2",
        put(at_slot(1, "reserved2") + 31, b"\1"),
        errors.ReservedError,
        at_slot(1, "reserved2"),
        "slot: reserved",
    ),
    ("dimension 0", put(*list_item(at_slot(0, "dims"), 1, 0)), errors.SlotError, None, "slot input: dimension 0"),
    (
        "unused dimension",
        put(*list_item(at_slot(0, "dims"), 2, 1)),
        errors.ReservedError,
        at_slot(0, "name"),
        "unused dimensions",
    ),
    (
        "unused stride",
        put(*list_item(at_slot(1, "strides"), 5, 1)),
        errors.ReservedError,
        at_slot(1, "name"),
        "unused dimensions",
    ),
    (
        "stride 0",
        put(*list_item(at_slot(0, "strides"), 0, 0)),
        errors.SlotError,
        None,
        "slot input: dimension 2 with stride 0",
    ),
    (
        "stride below the element",
        put(*list_item(at_slot(1, "strides"), 0, 1)),
        errors.SlotError,
        None,
        "at least 1 with at least 2",
    ),
    (
        "stride not a multiple",
        put(*list_item(at_slot(0, "strides"), 0, 6)),
        errors.SlotError,
        None,
        "not a multiple",
    ),
    (
        "slot address odd",
        slot(0, "address", 0x10002),
        errors.SlotError,
        None,
        "not a multiple of the element size",
    ),
    (
        "slot in address space 1",
        slot(0, "address_space", 1),
        errors.SlotError,
        None,
        "slot input: no such address space: expected less than 1, found 1",
    ),
    (
        "slot beyond va_bytes",
        slot(1, "address", 0x3FFF8),
        errors.SlotError,
        None,
        "slot output reaches beyond va_bytes",
    ),
    ("slot address 2^64-2", slot(1, "address", (1 << 64) - 2), errors.SlotError, None, "reaches beyond va_bytes"),
    (
        "spans that overflow 64 bits",
        both(
            put(at_slot(0, "dims"), b"\xff" * 8),
            put(at_slot(0, "strides"), b"\xfc\xff\xff\xff" * 2),
        ),
        errors.SlotError,
        None,
        "reaches beyond va_bytes",
    ),
    # codecs
    ("unknown codec", entry(4, "codec", 3), errors.CodecError, START[4], "unknown codec"),
    ("byte planes, which were a codec", entry(4, "codec", 2), errors.CodecError, START[4], "unknown codec"),
    (
        "stored with two sizes",
        both(entry(3, "stored_bytes", 16 * 18), entry(5, "raw_bytes", 4)),
        errors.CodecError,
        START[5],
        "two sizes",
    ),
    ("LZ4 garbage", stored_as(5, 1, b"\xff" * 40, 19), errors.CodecError, START[5], "LZ4 data is damaged"),
    ("LZ4 empty", stored_as(5, 1, b"", 19), errors.CodecError, START[5], "enough for 19 bytes"),
    ("LZ4 cut", stored_as(5, 1, PACKED_NOTE[:-9], 29), errors.CodecError, START[5], "LZ4 data is damaged"),
    ("LZ4 with more data after it", stored_as(5, 1, PACKED_NOTE + b"\0", 29), errors.CodecError, START[5], ""),
    ("LZ4 shorter than raw_bytes", stored_as(5, 1, PACKED_NOTE, 30), errors.CodecError, START[5], "found 29"),
    ("LZ4 longer than raw_bytes", stored_as(5, 1, PACKED_NOTE, 28), errors.CodecError, START[5], "larger"),
    ("LZ4 of 4 GiB", stored_as(5, 1, PACKED_NOTE, 1 << 32), errors.CodecError, START[5], "enough for 4294967296"),
    # notes
    ("notes not JSON", in_body(5, 0, b"x"), errors.SectionError, START[5], "notes are not JSON"),
    ("notes not an object", stored_as(5, 0, b"[]", 2), errors.SectionError, START[5], "not a JSON object"),
    ("notes not UTF-8", in_body(5, 2, b"\xff"), errors.SectionError, START[5], "notes are not JSON"),
    (
        "notes nested deep",
        stored_as(5, 0, JSON_DEEP, 2048),
        errors.SectionError,
        START[5],
        "notes are not JSON",
    ),
    # actions
    ("unknown opcode", in_body(3, 0, b"\xff"), errors.UnknownActionError, None, "action 0: unknown opcode: 0xff"),
    ("opcode 0", in_body(3, 16, b"\0"), errors.UnknownActionError, None, "action 1: unknown opcode: 0x00"),
    ("reserved action field", in_body(3, 12, b"\1"), errors.ReservedError, None, "action 0: a field that"),
    ("reserved action flag", in_body(3, 17, b"\x0f"), errors.ReservedError, None, "action 1: a field that"),
    (
        "map outside",
        in_body(3, 16 + 12, b"\x0f"),
        errors.ActionRangeError,
        None,
        "action 1: pages outside the carve-out",
    ),
    ("no such slot", in_body(3, 5 * 16 + 2, b"\2"), errors.ActionRangeError, None, "action 5: no such slot"),
    (
        "job 1 is missing",
        in_body(3, 7 * 16 + 4, b"\1"),
        errors.ActionError,
        None,
        "job numbers do not count from 0",
    ),
]


@pytest.mark.parametrize("row", MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed(row: Malformed) -> None:
    assert_refused(row)


def test_malformed_names_are_unique() -> None:
    names = [row[0] for row in MALFORMED]
    assert len(names) == len(set(names)) >= 40
