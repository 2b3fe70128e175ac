# SPDX-License-Identifier: BSD-2-Clause
"""What the normal world makes of the firmware's answer."""

from __future__ import annotations

import pytest

from host_tools.runners import mailbox
from host_tools.runners.buffers import Buffers
from host_tools.runners.replay import RunnerError
from tee_replayer.generator.status import value_of
from trace_format import packing
from trace_format.schema.mailbox import MAILBOX_DATA_AT, MAILBOX_RESPONSE_AT

REPEAT = 3


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
