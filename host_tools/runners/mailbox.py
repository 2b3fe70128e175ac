"""The mailbox of the firmware, from the normal world's side: twin of baremetal/mailbox.h."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from host_tools.runners.replay import Buffers, RunnerError
from tee_replayer.status import Report

REQUEST_MAGIC, RESPONSE_MAGIC = b"GMBXREQ1", b"GMBXESP1"
RESPONSE_AT, DATA_AT = 8192, 12288
_REQUEST = struct.Struct("<8sQQII")
_BUFFER = struct.Struct("<IIQQ")
_RESPONSE = struct.Struct("<8sQ10I5Q")
_ALIGNMENT = 4096


@dataclass(frozen=True)
class Layout:
    """Where the parts of a request lie, as offsets from the mailbox base.

    Attributes:
        trace_at: the signed trace.
        buffers_at: one offset for each row of Buffers.
        size: bytes in all.
    """

    trace_at: int
    buffers_at: tuple[int, ...]
    size: int


def layout(signed: bytes, buffers: Buffers) -> Layout:
    """Place the signed trace and the slots' data behind the mailbox."""
    at = DATA_AT
    places = []
    for size in (len(signed), *(row.data.nbytes for row in buffers.rows)):
        places.append(at)
        at += -(-size // _ALIGNMENT) * _ALIGNMENT
    return Layout(places[0], tuple(places[1:]), at)


def request(memory: memoryview, signed: bytes, buffers: Buffers, repeat: int) -> Layout:
    """Write a request, and all that it points to, into the memory at the mailbox base.

    Raises:
        RunnerError: it does not fit.
    """
    places = layout(signed, buffers)
    if places.size > len(memory):
        raise RunnerError(f"the mailbox's memory is too small: expected {places.size} bytes, found {len(memory)}")
    _REQUEST.pack_into(memory, 0, REQUEST_MAGIC, places.trace_at, len(signed), repeat, len(buffers.rows))
    for index, (row, at) in enumerate(zip(buffers.rows, places.buffers_at, strict=True)):
        _BUFFER.pack_into(memory, _REQUEST.size + index * _BUFFER.size, row.index, 0, at, row.data.nbytes)
        memory[at : at + row.data.nbytes] = row.data.tobytes()
    memory[places.trace_at : places.trace_at + len(signed)] = signed
    return places


def trace_in(memory: bytes) -> tuple[int, int] | None:
    """Where a request has the signed trace: from, to; None when this is no request. Nothing else is judged."""
    if not memory.startswith(REQUEST_MAGIC) or len(memory) < _REQUEST.size:
        return None
    _magic, at, size, _repeat, _buffers = _REQUEST.unpack_from(memory)
    return at, at + size


def response(memory: memoryview, buffers: Buffers, places: Layout) -> Report:
    """Read the firmware's answer, and the outputs into the buffers.

    Raises:
        RunnerError: there is no answer.
    """
    magic, _replays, *fields = _RESPONSE.unpack_from(memory, RESPONSE_AT)
    if magic != RESPONSE_MAGIC:
        raise RunnerError("the firmware gave no answer")
    *narrow, _reserved, actions, secure_bytes, verify_us, load_us, replay_us = fields
    for row, at in zip(buffers.rows, places.buffers_at, strict=True):
        row.data.reshape(-1).view("u1")[:] = memory[at : at + row.data.nbytes]
    return Report(*(*narrow, actions, secure_bytes, verify_us, load_us, replay_us))
