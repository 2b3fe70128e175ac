# SPDX-License-Identifier: BSD-2-Clause
"""Traces: what is built is read back, and what is damaged is refused."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sampling import SomeOf, few
from tests.support.trace_edits import HEADER, MANIFEST_AT, NOTES, PACKED, PLAIN, START, same
from tests.support.trace_samples import CARVEOUT, Damage, offset_of, sample, traces
from trace_format import errors
from trace_format.actions import ACTION_DTYPE, Op, action
from trace_format.assembly import DEFAULT_CHUNK_BYTES
from trace_format.errors import TraceError
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace


@given(traces(), st.booleans(), st.sampled_from([4096, 8192, 65536]))
def test_built_traces_are_read_back(trace: Trace, compress: bool, chunk_bytes: int) -> None:
    data = trace.build(compress=compress, chunk_bytes=chunk_bytes)
    again = Trace.parse(data)
    assert same(again, trace)
    assert again.build(compress=compress, chunk_bytes=chunk_bytes) == data
    assert again.trace_id == trace.trace_id


@few(40, 300)
@given(st.binary(max_size=400) | st.binary(max_size=400).map(lambda tail: PLAIN[:HEADER] + tail))
def test_random_files_are_refused(data: bytes) -> None:
    with pytest.raises(TraceError):
        Trace.parse(data)


@pytest.mark.parametrize("data", [PLAIN, PACKED], ids=["plain", "packed"])
def test_any_changed_byte_is_refused_or_has_an_effect(data: bytes, some_of: SomeOf) -> None:
    """Chunk hashes cover the body; in the head, a byte that may be anything is a value, and not lost."""
    body = Damage(data).header("head_bytes")
    slots = Damage(data)
    packed = slots.entry(1, "offset") + np.arange(slots.entry(1, "stored_bytes") if slots.entry(1, "codec") else 0)
    for at in some_of(range(len(data)), 2000):
        bad = bytearray(data)
        bad[at] ^= 0x01
        try:
            trace = Trace.parse(bytes(bad))
        except TraceError:
            continue
        assert at < body
        # LZ4 can say the same in several ways
        assert not same(trace, sample()) or at in packed, f"byte {at:#x} has no effect"


@pytest.mark.parametrize("data", [PLAIN, PACKED], ids=["plain", "packed"])
def test_truncated_anywhere(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(errors.TruncatedError) as caught:
            Trace.parse(data[:size])
        assert caught.value.offset == size
        assert caught.value.expected == (len(data) if size >= HEADER else HEADER)
        assert caught.value.found == size


def test_trace_id_depends_on_actions_and_image_only() -> None:
    trace = sample()
    expected = hashlib.sha256(trace.actions.tobytes() + trace.image).digest()[:16]
    assert trace.trace_id == expected
    at = MANIFEST_AT + offset_of("manifest", "trace_id")
    assert PLAIN[at : at + 16] == PACKED[at : at + 16] == expected
    assert trace.with_(image=trace.image[:-1]).trace_id != expected
    assert trace.with_(actions=trace.actions[:-1]).trace_id != expected


def test_slots_by_name() -> None:
    trace = sample()
    assert trace.slot("output").dtype is DType.FLOAT16
    assert trace.slot("input").span == 12 + 2 * 4 + 4
    assert trace.slot("input").dense_bytes == 2 * 3 * 4
    assert trace.slot("input").numpy_dtype == np.dtype("<f4")
    with pytest.raises(errors.SlotError, match="no slot 'x'; there are: input, output"):
        trace.slot("x")
    with pytest.raises(errors.SlotError, match="no slot 'x'; there are: none"):
        trace.with_(slots=[]).slot("x")


def test_read_names_the_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trace") / "cut.gtr"
    path.write_bytes(PLAIN)
    assert same(Trace.read(path), sample())
    path.write_bytes(PLAIN[:-1])
    with pytest.raises(errors.TruncatedError, match=r"cut\.gtr at offset 0x[0-9a-f]+: size of the file: expected"):
        Trace.read(path)


def test_the_samples_are_read() -> None:
    for data in (PLAIN, PACKED):
        assert same(Trace.parse(data), sample())
    assert Damage(PLAIN).types == [1, 2, 3, 16, 17, 32]
    assert len(PACKED) < len(PLAIN) // 2
    assert Damage(PLAIN).header("chunk_bytes") == 4096
    assert Damage(PACKED).header("chunk_bytes") == DEFAULT_CHUNK_BYTES


@pytest.mark.parametrize("bound", [0, 1])
def test_raw_flag_and_bound_slots_survive(bound: int) -> None:
    trace = sample().with_(raw=bool(bound))
    assert Trace.parse(trace.build()).raw is bool(bound)


@pytest.mark.parametrize(("gpu", "spaces"), [("v3d42", 1), ("v3d71", 1), ("mali_g71", 8), ("mali_g72", 8)])
def test_address_spaces_are_those_of_the_gpu(gpu: str, spaces: int) -> None:
    def trace(slot_space: int, table_space: int) -> Trace:
        rows = np.array([action(Op.SET_GPU_PGTABLE, address_space=table_space)], dtype=ACTION_DTYPE)
        slot = Slot("x", SlotKind.INPUT, DType.INT8, (1,), (1,), 0, slot_space)
        return Trace(gpu, rows, b"", CARVEOUT, CARVEOUT, [slot])

    found = trace(spaces - 1, spaces - 1)
    assert same(Trace.parse(found.build()), found)
    with pytest.raises(errors.SlotError, match=f"expected less than {spaces}, found {spaces}"):
        trace(spaces, 0).build()
    with pytest.raises(errors.ActionRangeError, match=r"action 0: no such address space: SetGpuPgtable"):
        trace(0, spaces).build()


UNBUILDABLE: list[tuple[str, dict[str, object], type[TraceError], str]] = [
    ("name too long", {"meta": {"name": "x" * 65}}, errors.ReservedError, "longer than 64 bytes"),
    ("NUL in the driver", {"meta": {"driver": "a\0b"}}, errors.ReservedError, "has a NUL"),
    ("security version -1", {"meta": {"security_version": -1}}, errors.ReservedError, "out of range"),
    ("security version 2^32", {"meta": {"security_version": 1 << 32}}, errors.ReservedError, "out of range"),
    ("unknown GPU", {"gpu": "none"}, errors.ProfileError, "no profile for GPU 'none'"),
    ("carve-out of 0", {"carveout_bytes": 0}, errors.ManifestError, "carveout_bytes is out of range"),
    ("image too large", {"image": bytes(CARVEOUT + 1)}, errors.ManifestError, "larger than the carve-out"),
    (
        "more than ten minutes",
        {"meta": {"time_budget_us": 600_000_001}},
        errors.ManifestError,
        "time_budget_us is out of range",
    ),
    ("va_bytes", {"va_bytes": 1 << 40}, errors.ManifestError, "va_bytes is out of range"),
    (
        "257 slots",
        {"slots": [Slot(str(i), SlotKind.INPUT, DType.INT8, (1,), (1,), 0) for i in range(257)]},
        errors.SlotError,
        "too many slots",
    ),
    (
        "rank 7",
        {"slots": [Slot("x", SlotKind.INPUT, DType.INT8, (1,) * 7, (1,) * 7, 0)]},
        errors.SlotError,
        "rank",
    ),
    ("rank 0", {"slots": [Slot("x", SlotKind.INPUT, DType.INT8, (), (), 0)]}, errors.SlotError, "rank"),
    (
        "more strides than dimensions",
        {"slots": [Slot("x", SlotKind.INPUT, DType.INT8, (1,), (1, 1), 0)]},
        errors.SlotError,
        "rank",
    ),
    (
        "slot name too long",
        {"slots": [Slot("x" * 33, SlotKind.INPUT, DType.INT8, (1,), (1,), 0)], "actions": sample().actions[:0]},
        errors.ReservedError,
        "longer than 32 bytes",
    ),
    (
        "bad action",
        {"actions": np.array([action(Op.COPY_TO_GPU, slot=2)], dtype=ACTION_DTYPE)},
        errors.ActionRangeError,
        "no such slot",
    ),
]


@pytest.mark.parametrize(("name", "changes", "error", "message"), UNBUILDABLE, ids=[row[0] for row in UNBUILDABLE])
def test_what_cannot_be_read_is_not_built(
    name: str, changes: dict[str, object], error: type[TraceError], message: str
) -> None:
    with pytest.raises(error) as caught:
        sample().with_(**changes).build()
    assert type(caught.value) is error
    assert message in str(caught.value)


def test_notes_are_plain_json() -> None:
    at = START[NOTES]
    assert json.loads(PLAIN[at : at + Damage(PLAIN).entry(NOTES, "stored_bytes")]) == sample().notes
