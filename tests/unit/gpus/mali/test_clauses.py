# SPDX-License-Identifier: BSD-2-Clause
"""Clauses of Bifrost programs: quadwords put together by hand, and such that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.gpus.mali import operations
from host_tools.gpus.mali.clauses import Clause, ClauseError, Tuple, clause_at
from host_tools.gpus.mali.notation import clause_lines, program, read_block

BLOCK, FMA, ADD = st.integers(0, 2**35 - 1), st.integers(0, 2**23 - 1), st.integers(0, 2**20 - 1)
TUPLES = st.builds(Tuple, BLOCK, FMA, ADD)
CONSTANT = st.integers(0, 2**60 - 1)
NOP = Tuple(0b10000 << 30, 0x701963, 0x3D964)


def main(item: Tuple) -> int:
    """The low 75 bits of a tuple, where a quadword has them."""
    return (item.block | item.fma << 35 | (item.add & 0x1FFFF) << 58) << 8


def low(item: Tuple) -> int:
    """The low 45 bits of a tuple in two quadwords, at the end of the first."""
    return (item.block | (item.fma & 0x3FF) << 35) << 83


def rest(item: Tuple) -> int:
    """The rest of it but for the ADD's 3 high bits."""
    return (item.fma >> 10) << 83 | (item.add & 0x1FFFF) << 96


def high(item: Tuple) -> int:
    return item.add >> 17


def encoded(items: list[Tuple], constants: list[int], header: int) -> bytes:
    """A clause of up to four tuples, with no constant or two."""
    stop = 0 if constants else 0x40
    if len(items) == 1:
        words = [0b00001000 | stop | high(items[0]) | main(items[0]) | header << 83]
    else:
        words = [0b00101000 | high(items[0]) | main(items[0]) | header << 83]
    if len(items) == 2:
        words.append(0b00000011 | stop | main(items[1]) | high(items[1]) << 125)
    if len(items) > 2:
        words.append(0b00100000 | high(items[1]) | main(items[1]) | low(items[2]))
    if len(items) == 4:
        words.append(
            0b00000101 | stop | main(items[3]) | high(items[3]) << 122 | rest(items[2]) | high(items[2]) << 125
        )
    if constants:
        place = {1: 0, 2: 1, 4: 2}[len(items)]
        words.append(0b01110000 | place | constants[0] << 8 | constants[1] << 68)
    return b"".join(word.to_bytes(16, "little") for word in words)


def decoded(data: bytes) -> Clause:
    whole = len(data) // 16
    return clause_at(lambda number: data[16 * number :][:16] if number < whole else None)


@given(st.sampled_from([1, 2, 4]), st.data(), st.integers(0, 2**45 - 1), st.booleans())
def test_what_is_encoded_is_decoded(count: int, data: st.DataObject, header: int, has_constants: bool) -> None:
    items = data.draw(st.lists(TUPLES, min_size=count, max_size=count))
    constants = [data.draw(CONSTANT), data.draw(CONSTANT)] if has_constants else []
    code = encoded(items, constants, header)
    clause = decoded(code + bytes(16))
    assert (clause.size, clause.header, clause.tuples) == (len(code), header, items)
    assert clause.constants == dict(enumerate(constants))
    assert len(clause_lines(clause)) == 1 + 2 * count


@given(st.binary(min_size=16, max_size=200))
def test_any_bytes_are_a_clause_or_a_reason(data: bytes) -> None:
    try:
        clause = decoded(data)
    except ClauseError as error:
        found = str(error)
    else:
        found = "a clause"
        assert 1 <= len(clause.tuples) <= 8
        assert clause.size <= len(data)
    assert found


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([0x00], "a quadword with the unknown tag 0x00"),
        ([0x28], "a quadword that is not known"),
        ([0x28, 0x45], "the rest of tuple 2, which has not begun"),
        ([0x28, 0x7F], "constants at the unknown place 15"),
        ([0x08, 0x71], "constants of a clause of 2 tuples, after 1"),
        ([0x28, 0x71], "tuples [0] of 2"),
        ([0x28] * 20, "a clause without an end"),
    ],
)
def test_what_is_no_clause(words: list[int], reason: str) -> None:
    with pytest.raises(ClauseError) as error:
        decoded(b"".join(word.to_bytes(16, "little") for word in words))
    assert str(error.value) == reason


def test_a_clause_in_words() -> None:
    """r5 = r0 * r1 + u3 (low word), written by the block of the next tuple; then a 32-bit constant is copied."""
    reads = Tuple(0x83 | 0 << 20 | 1 << 25 | 15 << 31 | 6 << 14 | 7 << 8, 0 | 1 << 3 | 4 << 6, 0x3D964)
    writes = Tuple(0x41 | 5 << 8 | 5 << 14 | 2 << 31 | 1 << 25, 0x701968 | 4, 0x3D964)
    assert read_block(writes.block, False).ports == ("r0", "r1", "")
    lines = clause_lines(Clause(32, 0, [reads, writes], {0: 0x3F80000}))
    assert lines[0] == "clause of 2, message none, staging register r0, ends the thread"
    assert lines[1].startswith("  *FMA.f32 [0x000108] ")
    assert lines[1].endswith("r0, r1, u3.w0")
    assert lines[2] == "  +NOP [0x03d964]"
    assert lines[3].endswith("#0x3f800001.w0")


def test_a_program_ends_before_zeros() -> None:
    code = encoded([NOP], [], 0) + encoded([NOP, NOP], [], 0)
    found, flaw = program(lambda va, size: (code + bytes(64))[va : va + size] or None, 0)
    assert [(item.va, item.size) for item in found] == [(0, 16), (16, 32)]
    assert flaw == ""
    assert (
        program(lambda va, size: code[va : va + size] or None, 0)[1] == "it runs on into memory that is not mapped"
    )


def test_no_encoding_has_two_names() -> None:
    """Of two operations that share an encoding one is a special case of the other."""
    for table in (operations.FMA, operations.ADD):
        for at, (exact, mask, one) in enumerate(table):
            for other, wide, two in table[:at]:
                if (exact ^ other) & mask & wide == 0:
                    assert mask != wide, (one.name, two.name)
                    assert mask & wide in (mask, wide), (one.name, two.name)
