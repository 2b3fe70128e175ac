# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces that are encrypted: each chunk is decrypted once it is checked, however often it is read."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from signing import encryption, envelope
from tee_replayer.generator.status import ReplayError, Report
from tests.support import closed_pieces, hostile
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile
from tests.support.small_jobs import weighted
from tests.support.streamed import INPUT, WEIGHTS, loaded, made, output, smallest
from trace_format import layout
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES, SectionType

ROOM = 1 << 20


@functools.cache
def plain(more: int = 0, compress: bool = True, chunk_bytes: int = PAGE_BYTES) -> bytes:
    """A network that reads most of its weights in each replay, in chunks that begin inside pieces."""
    raw = weighted(WEIGHTS)
    return made(raw, smallest(raw) + more).build(compress=compress, chunk_bytes=chunk_bytes)


def status(data: bytes | bytearray) -> str:
    """What a device says that loads a file and replays it."""
    try:
        with loaded(bytearray(data), ROOM, secret=e.SECRET) as (replayer, _):
            output(replayer)
            return replayer.report.name
    except ReplayError as error:
        return error.report.name


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize(
    "more", [0, 4 * PAGE_BYTES, WEIGHTS * PAGE_BYTES], ids=["read again", "some stay", "stay"]
)
@pytest.mark.parametrize("chunk_bytes", [PAGE_BYTES, 16 * PAGE_BYTES])
def test_outputs_are_those_of_the_plain_trace(more: int, compress: bool, chunk_bytes: int) -> None:
    trace = plain(more, compress, chunk_bytes)
    with loaded(bytearray(s.signed(trace)), ROOM) as (replayer, _):
        expected = output(replayer)
    closed = s.signed(encryption.encrypt(trace, [e.public(e.DEVICE)]))
    with loaded(bytearray(closed), ROOM, secret=e.SECRET) as (replayer, _):
        assert [output(replayer) for _ in range(3)] == [expected] * 3
        replayer.restart()
        assert output(replayer) == expected


def test_it_decrypts_to_what_it_was() -> None:
    trace = plain()
    assert encryption.decrypt(encryption.encrypt(trace, [e.public(e.DEVICE)]), [e.DEVICE]) == trace


def test_a_joint_trace_can_be_encrypted_as_well() -> None:
    device = s.Device(networks=2)
    device.replayer.decrypts_with(e.SECRET)
    trace = s.joint().build()
    closed = encryption.encrypt(trace, [e.public(e.DEVICE)])
    assert device.replayer.load(s.signed(closed), s.KEY).ok
    assert device.replayer.networks == 2
    assert encryption.decrypt(closed, [e.DEVICE]) == trace


def test_a_trace_for_another_device() -> None:
    assert status(s.signed(encryption.encrypt(plain(), [e.public(e.STRANGER)]))) == "ENCRYPTED"


def test_a_ciphertext_that_changes_before_each_piece_is_read() -> None:
    trace = encryption.encrypt(plain(compress=False), [e.public(e.DEVICE)])
    good = s.signed(trace)
    part = layout.disassemble(trace)[1].one(SectionType.STREAM)
    start = len(good) - len(trace) + part.offset
    for at in range(start + 5, start + len(part.stored), PAGE_BYTES):
        data = bytearray(good)
        with loaded(data, ROOM, secret=e.SECRET) as (replayer, carveout):
            data[at] ^= 0x10
            taken = np.full(16, 99, np.int32)
            replayer.bind(0, INPUT.copy())
            replayer.bind(1, taken)
            with pytest.raises(ReplayError) as failed:
                replayer.run()
            assert failed.value.report.name == "CHUNK"
            assert (taken == 99).all()
            replayer.unload()
            assert carveout[:].count(0) == len(carveout)


def _changed(edit: Callable[[bytearray, layout.Parts], None]) -> bytes:
    """Changed by somebody who can sign, after it was encrypted."""
    trace = bytearray(encryption.encrypt(plain(compress=False), [e.public(e.DEVICE)]))
    edit(trace, layout.disassemble(bytes(trace))[1])
    return s.signed(bytes(trace))


def _flipped(kind: SectionType, at: int) -> bytes:
    def edit(trace: bytearray, parts: layout.Parts) -> None:
        trace[parts.one(kind).offset + at] ^= 1

    return _changed(edit)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (lambda: _flipped(SectionType.CHUNKS, -1 % 32), "ENCRYPTED"),  # the key is for one head
        (lambda: _flipped(SectionType.PIECES, 20), "PIECES"),
        (lambda: _flipped(SectionType.ENCRYPTION, 8), "SECTIONS"),
        (lambda: _flipped(SectionType.ENCRYPTION, -1 % 156), "ENCRYPTED"),
        (lambda: _flipped(SectionType.STREAM, 3), "CHUNK"),
        (lambda: _flipped(SectionType.ACTIONS, 3), "CHUNK"),
    ],
    ids=["a chunk's hash", "a piece", "the algorithm", "the wrapped key", "a piece's bytes", "an action"],
)
def test_what_was_changed_before_it_was_signed(data: Callable[[], bytes], name: str) -> None:
    assert status(data()) == name


@pytest.mark.parametrize("without", [1 << 1, 1 << 4], ids=["encrypted", "streamed"])
def test_without_a_flag(without: int) -> None:
    trace = bytearray(encryption.encrypt(plain(), [e.public(e.DEVICE)]))
    trace[38] &= ~without
    assert status(s.signed(bytes(trace))) == "SECTIONS"


def _moved(trace: bytearray, parts: layout.Parts) -> None:
    """PIECES behind the message: their rows of the table change places."""
    rows = [layout.HEADER_BYTES + index * layout.SECTION_BYTES for index in (3, 4)]
    first, second = (trace[at : at + 2] for at in rows)
    trace[rows[0] : rows[0] + 2], trace[rows[1] : rows[1] + 2] = second, first


def test_pieces_behind_the_message() -> None:
    assert status(_changed(_moved)) == "SECTIONS"


def test_there_are_enough_hostile_ones() -> None:
    assert len(closed_pieces.LOADS) >= 100


def _by_host(row: Hostile) -> str:
    """The name of its error, of a host that has the key; "" where it has no objection."""
    try:
        with encryption.reading_with([e.DEVICE]):
            encryption.parse(envelope.split(row.make()).trace)
    except TraceError as error:
        return type(error).__name__
    return ""


def _by_core(row: Hostile) -> tuple[Report, s.Device]:
    device = s.Device(streaming=True)
    device.replayer.decrypts_with(e.SECRET)
    return hostile.by_core(row, device), device


@pytest.mark.parametrize("row", closed_pieces.LOADS, ids=str)
def test_a_hostile_one_is_refused_by_host_and_device(row: Hostile) -> None:
    report, device = _by_core(row)
    assert (report.name, _by_host(row)) == (row.status, row.error)
    assert not device.gpu.log, "a register was written"
    assert device.is_wiped


@pytest.mark.parametrize("row", closed_pieces.GOOD, ids=str)
def test_what_they_start_from_is_good(row: Hostile) -> None:
    assert _by_core(row)[0].ok
    assert _by_host(row) == ""
