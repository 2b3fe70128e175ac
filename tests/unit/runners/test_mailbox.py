# SPDX-License-Identifier: BSD-2-Clause
"""What the normal world makes of the firmware's answer."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from host_tools.runners import mailbox
from host_tools.runners.buffers import Buffer, Buffers
from host_tools.runners.replay import RunnerError
from tee_replayer.generator.status import value_of
from trace_format import packing
from trace_format.schema.mailbox import (
    MAILBOX_DATA_AT,
    MAILBOX_LOG,
    MAILBOX_REQUEST,
    MAILBOX_RESPONSE_AT,
)
from trace_format.slots import Slot

REPEAT = 3


def row(index: int) -> Buffer:
    """Two bytes of a slot; of the slot itself, nothing is asked."""
    return Buffer(index, cast(Slot, None), np.full(2, index, np.uint8))


def answered(status: str, replays: int) -> memoryview:
    """A mailbox with a request for REPEAT replays and an answer to it."""
    memory = memoryview(bytearray(MAILBOX_DATA_AT + 4096))
    mailbox.request(memory, b"trace", Buffers(), REPEAT)
    report = dict.fromkeys(packing.unpack("report", bytes(packing.size_of("report"))), 0)
    values = {"replays": replays, "report": report | {"status": value_of(status)}}
    packed = packing.pack("mailbox_response", values)
    memory[MAILBOX_RESPONSE_AT : MAILBOX_RESPONSE_AT + len(packed)] = packed
    return memory


@pytest.mark.parametrize("replays", [0, 1, REPEAT - 1, REPEAT + 1])
def test_success_without_all_replays_is_no_answer(replays: int) -> None:
    places = mailbox.layout(b"trace", Buffers())
    with pytest.raises(RunnerError, match=f"success after {replays} of {REPEAT} replays"):
        mailbox.response(answered("OK", replays), Buffers(), places)


@pytest.mark.parametrize(("status", "replays"), [("OK", REPEAT), ("SIGNATURE", 0), ("DIVERGED", 1)])
def test_an_answer_that_agrees_with_itself(status: str, replays: int) -> None:
    report = mailbox.response(answered(status, replays), Buffers(), mailbox.layout(b"trace", Buffers()))
    assert report.name == status


def test_requests_of_networks() -> None:
    """Each begins before its own slots, also a network without any; answers have room of their own."""
    rows = [row(index) for index in (0, 2, 3)]
    heads = (0, 2, 4)
    memory = memoryview(bytearray(MAILBOX_DATA_AT + 9 * 4096))
    places = mailbox.request(memory, b"trace", Buffers(rows), 1, (mailbox.Extra(MAILBOX_LOG, b"log"),), heads)
    size = packing.size_of("mailbox_buffer")
    at = packing.size_of("mailbox_request")
    found = [packing.unpack("mailbox_buffer", bytes(memory[at + i * size :][:size])) for i in range(7)]
    order = [MAILBOX_REQUEST, 0, MAILBOX_REQUEST + 1, 2, 3, MAILBOX_REQUEST + 2, MAILBOX_LOG]
    assert [one["slot"] for one in found] == order
    assert packing.unpack("mailbox_request", bytes(memory[:at]))["buffer_count"] == len(order)
    asked = [one for one in found if one["slot"] >= MAILBOX_REQUEST]
    assert tuple(one["offset"] for one in asked) == places.answers_at
    assert {one["bytes"] for one in asked} == {(1 << 64) - 1}
    assert mailbox.begins_request(bytes(memory))


@pytest.mark.parametrize("slots", [(), (0,)])
def test_a_request_for_firmware_without_a_queue(slots: tuple[int, ...]) -> None:
    memory = memoryview(bytearray(MAILBOX_DATA_AT + 2 * 4096))
    mailbox.request(memory, b"trace", Buffers([row(index) for index in slots]), 1)
    assert not mailbox.begins_request(bytes(memory))
    assert not mailbox.begins_request(b"")
