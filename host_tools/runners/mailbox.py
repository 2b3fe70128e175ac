# SPDX-License-Identifier: BSD-2-Clause
"""The mailbox of the firmware, from the normal world's side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from host_tools.runners.buffers import Buffers
from host_tools.runners.replay import RunnerError
from tee_replayer.generator.status import Report
from trace_format import packing
from trace_format.errors import MagicError
from trace_format.schema.mailbox import (
    MAILBOX_DATA_AT,
    MAILBOX_REQUEST,
    MAILBOX_RESPONSE_AT,
    REQUEST_MAGIC,
)
from trace_format.trace import Trace

_REQUEST_BYTES, _BUFFER_BYTES = packing.size_of("mailbox_request"), packing.size_of("mailbox_buffer")
_ANSWER_BYTES = packing.size_of("mailbox_answer")
_ALIGNMENT = 4096
_ANY_TIME = (1 << 64) - 1


@dataclass(frozen=True)
class Layout:
    """Where the parts of a request lie, as offsets from the mailbox base.

    Attributes:
        trace_at: the signed trace.
        buffers_at: one offset for each row of Buffers.
        size: bytes in all.
        extras_at: one offset for each further buffer.
        answers_at: one offset for each request of a firmware with a queue.
    """

    trace_at: int
    buffers_at: tuple[int, ...]
    size: int
    extras_at: tuple[int, ...] = ()
    answers_at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Extra:
    """A buffer that is no slot of the trace: its number, and what it holds at first."""

    slot: int
    data: bytes
    step: int = 0  # of a slot's series


def heads_of(trace: Trace | None, has_queue: bool) -> tuple[int, ...]:
    """For firmware with a queue, the first slot of each of the trace's networks; none for others."""
    if not has_queue:
        return ()
    return tuple(row.first_slot for row in trace.networks) if trace and trace.networks else (0,)


def layout(signed: bytes, buffers: Buffers, extras: Sequence[Extra] = (), heads: Sequence[int] = ()) -> Layout:
    """Place the signed trace, the slots' data, further buffers and answers after the mailbox."""
    at = MAILBOX_DATA_AT
    places = []
    tensors = [row.data.nbytes for row in buffers.rows]
    for size in (len(signed), *tensors, *(len(extra.data) for extra in extras), *(_ANSWER_BYTES for _ in heads)):
        places.append(at)
        at += -(-size // _ALIGNMENT) * _ALIGNMENT
    end = 1 + len(tensors)
    answers = end + len(extras)
    return Layout(places[0], tuple(places[1:end]), at, tuple(places[end:answers]), tuple(places[answers:]))


def request(
    memory: memoryview,
    signed: bytes,
    buffers: Buffers,
    repeat: int,
    extras: Sequence[Extra] = (),
    heads: Sequence[int] = (),
) -> Layout:
    """Write a request, and all that it points to, into the memory at the mailbox base.

    Args:
        memory, signed, buffers, repeat, extras: as they are.
        heads: for firmware with a queue, where the slots of each network begin (`heads_of`): each network is
            requested without a deadline.

    Raises:
        RunnerError: it does not fit.
    """
    places = layout(signed, buffers, extras, heads)
    if places.size > len(memory):
        raise RunnerError(f"the mailbox's memory is too small: expected {places.size} bytes, found {len(memory)}")
    words = {
        "trace_offset": places.trace_at,
        "trace_bytes": len(signed),
        "repeat": repeat,
        "buffer_count": len(buffers.rows) + len(extras) + len(heads),
    }
    memory[:_REQUEST_BYTES] = packing.pack("mailbox_request", words)
    given = [Extra(row.index, row.data.tobytes(), row.step) for row in buffers.rows] + list(extras)
    rows = []
    for extra, at in zip(given, places.buffers_at + places.extras_at, strict=True):
        size = len(extra.data)
        memory[at : at + size] = extra.data
        rows.append({"slot": extra.slot, "step": extra.step, "offset": at, "bytes": extra.step or size})
    asked = [
        (first, {"slot": MAILBOX_REQUEST + network, "step": 0, "offset": at, "bytes": _ANY_TIME})
        for network, (first, at) in enumerate(zip(heads, places.answers_at, strict=True))
    ]
    asked += [(row["slot"], row) for row in rows[: len(buffers.rows)]]
    asked.sort(key=itemgetter(0))  # a request stays before the slot that is its network's first
    rows = [row for _, row in asked] + rows[len(buffers.rows) :]
    packed = b"".join(packing.pack("mailbox_buffer", row) for row in rows)
    memory[_REQUEST_BYTES : _REQUEST_BYTES + len(packed)] = packed
    memory[places.trace_at : places.trace_at + len(signed)] = signed
    return places


def message(memory: memoryview, at: int, room: int) -> bytes:
    """What the firmware wrote to a buffer that begins with a `mailbox_message`; RunnerError: more than fits."""
    start = at + packing.size_of("mailbox_message")
    size = packing.unpack("mailbox_message", bytes(memory[at:start]))["bytes"]
    if size > at + room - start:
        raise RunnerError(f"the firmware says that it wrote {size} bytes into a buffer of {room}")
    return bytes(memory[start : start + size])


def begins_request(memory: bytes) -> bool:
    """Whether a request's first buffer is what firmware with a queue begins with. Nothing else is checked."""
    first = memory[_REQUEST_BYTES : _REQUEST_BYTES + _BUFFER_BYTES]
    return len(first) == _BUFFER_BYTES and packing.unpack("mailbox_buffer", first)["slot"] >= MAILBOX_REQUEST


def trace_in(memory: bytes) -> tuple[int, int] | None:
    """Where a request has the signed trace: from, to; None when this is not a request. Nothing else is checked."""
    if not memory.startswith(REQUEST_MAGIC) or len(memory) < _REQUEST_BYTES:
        return None
    found = packing.unpack("mailbox_request", memory[:_REQUEST_BYTES])
    return found["trace_offset"], found["trace_offset"] + found["trace_bytes"]


def response(memory: memoryview, buffers: Buffers, places: Layout) -> Report:
    """Read the firmware's answer, and the outputs into the buffers.

    A glitch on the device can leave a report that says success where nothing was replayed; the number of replays
    is counted apart from it, so both have to say so.

    Raises:
        RunnerError: there is no answer, or one that contradicts itself.
    """
    found = bytes(memory[MAILBOX_RESPONSE_AT : MAILBOX_RESPONSE_AT + packing.size_of("mailbox_response")])
    try:
        answer = packing.unpack("mailbox_response", found, MAILBOX_RESPONSE_AT)
    except MagicError:
        raise RunnerError("the firmware gave no answer") from None
    report = Report(**answer["report"])
    if report.ok:
        asked = packing.unpack("mailbox_request", bytes(memory[:_REQUEST_BYTES]))["repeat"]
        wanted = asked * max(len(places.answers_at), 1)
        if answer["replays"] != wanted:
            raise RunnerError(f"the firmware reports success after {answer['replays']} of {wanted} replays")
    for row, at in zip(buffers.rows, places.buffers_at, strict=True):
        row.data.reshape(-1).view("u1")[:] = memory[at : at + row.data.nbytes]
    return report
