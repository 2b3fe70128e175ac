# SPDX-License-Identifier: BSD-2-Clause
"""A signed trace that is handed down: made of its bytes only, each part read once, errors with their place."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
from collections.abc import Callable

import pytest

from signing.delivery import Delivery
from signing.envelope import split
from signing.sign import sign_trace
from signing.verify import Verdict, verify_delivery, verify_trace
from tests.support.signing_samples import ES256, flipped, small_trace
from trace_format import layout
from trace_format.errors import ChunkHashError, MagicError, TraceError, TruncatedError
from trace_format.trace import Trace

SIGNED = sign_trace(small_trace(), ES256)
OFFSET = split(SIGNED).offset


def test_what_it_says_is_what_the_bytes_say() -> None:
    found = Delivery(SIGNED)
    header, sections = layout.disassemble(small_trace())
    assert (found.data, len(found)) == (SIGNED, len(SIGNED))
    assert found.signed.envelope == split(SIGNED).envelope
    assert dict(found.header) == header
    assert [bytes(part.stored) for part in found.sections] == [bytes(part.stored) for part in sections]
    assert found.manifest["name"] == "small"
    assert found.trace is found.parse()
    assert found.parse().build(compress=False, chunk_bytes=4096) == small_trace()


def test_nobody_can_change_it() -> None:
    data = bytearray(SIGNED)
    found = Delivery(data)  # type: ignore[arg-type]
    data[-1] ^= 1
    assert found.data == SIGNED
    assert verify_delivery(found, [ES256.public])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.data = bytes(data)  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.header["head_bytes"] = 0  # type: ignore[index]
    with pytest.raises(TypeError):
        found.signed.trace[0] = 0
    assert [item.name for item in dataclasses.fields(Delivery)] == ["data"], "it is made of nothing else"


@pytest.mark.parametrize(
    ("data", "error", "offset"),
    [
        (small_trace(), MagicError, 0),
        (SIGNED[:-1], TruncatedError, len(SIGNED) - 1),
        (flipped(SIGNED, 8 * OFFSET), MagicError, OFFSET),
        (flipped(SIGNED, 8 * len(SIGNED) - 1), ChunkHashError, None),
    ],
)
def test_an_error_is_kept_and_nobody_adds_to_another_ones(
    data: bytes, error: type[TraceError], offset: int | None
) -> None:
    found = Delivery(data)
    assert found.trace is None
    with pytest.raises(error) as first, layout.naming("net.sgtr"):
        found.parse()
    with pytest.raises(error) as second:
        found.parse()
    assert (first.value.file, second.value.file) == ("net.sgtr", "")
    assert first.value.offset == second.value.offset
    assert offset in (None, second.value.offset)


def test_packages_may_change_how_exceptions_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """tblib does, for all classes of exceptions, once Dask is imported: copies have the same attributes."""
    monkeypatch.setitem(copyreg.dispatch_table, MagicError, lambda error: (lambda: error, ()))
    found = Delivery(small_trace())
    with pytest.raises(MagicError) as first, layout.naming("net.sgtr"):
        found.parse()
    with pytest.raises(MagicError) as second:
        found.parse()
    assert (first.value.file, second.value.file) == ("net.sgtr", "")


def test_a_damaged_chunk_has_its_place_in_the_file() -> None:
    found = Delivery(flipped(SIGNED, 8 * len(SIGNED) - 1))
    with pytest.raises(ChunkHashError) as error:
        found.parse()
    with pytest.raises(ChunkHashError) as alone:
        Trace.parse(found.signed.trace)
    assert error.value.offset == OFFSET + (alone.value.offset or 0)
    verdict = verify_delivery(found, [ES256.public])
    assert verdict.verdict == Verdict.BAD_CHUNK
    assert f"offset {error.value.offset:#x}" in verdict.reason


@pytest.mark.parametrize("ask_first", [lambda found: found.trace, lambda found: found.header, lambda _: None])
@pytest.mark.parametrize("bit", [8 * OFFSET + 3, 8 * (OFFSET + 100), 8 * len(SIGNED) - 1, 8 * 40, 8 * 120])
def test_a_verdict_does_not_depend_on_what_was_asked_before(
    ask_first: Callable[[Delivery], object], bit: int
) -> None:
    data = flipped(SIGNED, bit)
    found = Delivery(data)
    with contextlib.suppress(TraceError):
        ask_first(found)
    assert verify_delivery(found, [ES256.public], file="x") == verify_trace(data, [ES256.public], file="x")
