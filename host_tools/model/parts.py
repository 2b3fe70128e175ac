# SPDX-License-Identifier: BSD-2-Clause
"""One network of a joint trace as a trace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trace_format import networks
from trace_format.actions import Op, rewritten
from trace_format.network import Network
from trace_format.operands import Type
from trace_format.schema import PAGE_BYTES
from trace_format.streamed import Piece
from trace_format.trace import Trace

SEPARATOR = "/"  # between a network's name and that of its slot
NOTES = "networks"  # in the notes: of each network, its own


def part(trace: Trace, network: Network) -> Trace:
    """One network of a joint trace as a trace, in the same memory: other networks' pages stay, and nobody's.

    Its slots have the names that they had before they were joined. Pages of the image that it does not reach are
    zero.
    """
    image = bytearray(len(trace.image))
    for first, end in network.image:
        image[first * PAGE_BYTES : end * PAGE_BYTES] = trace.image[first * PAGE_BYTES : end * PAGE_BYTES]
    actions = trace.actions[network.first_action : network.end_action]
    jobs = int(np.count_nonzero(trace.actions["op"][: network.first_action] == Op.JOB))
    actions = rewritten(actions, lambda x: x - network.first_slot, Type.SLOT)
    actions = rewritten(actions, lambda x: x - jobs, Type.NUMBER)
    end = int(np.count_nonzero(actions["op"] == Op.JOB)) - 1
    begin = network.name + SEPARATOR
    slots = trace.slots[network.first_slot : network.end_slot]
    own = trace.notes.get(NOTES, {})
    notes = own.get(network.name, {}) if isinstance(own, dict) else {}
    return trace.with_(
        actions=actions,
        image=bytes(image),
        slots=[replace(slot, name=slot.name.removeprefix(begin)) for slot in slots],
        meta={
            **trace.meta,
            "name": network.name,
            "retry_limit": network.retry_limit,
            "time_budget_us": network.time_budget_us,
        },
        notes=notes if isinstance(notes, dict) else {},
        networks=[],
        streamed=[piece for row in trace.streamed for piece in _own(row, network, jobs, end)],
    )


def _own(piece: Piece, network: Network, jobs: int, last: int) -> Iterator[Piece]:
    """A piece as a network has it, if one of its jobs needs it: of all, those from `jobs` on, up to its `last`."""
    mine = network.image if piece.resident else ((network.first_page, network.end_page),)
    from_job, first = (max(number - jobs, 0) for number in (piece.from_job, piece.first_job))
    end = min(piece.last_job - jobs, last)
    if first <= end and any(begin <= piece.page and piece.end_page <= behind for begin, behind in mine):
        yield replace(piece, from_job=from_job, first_job=first, last_job=end)


def named(trace: Trace, name: str) -> Trace:
    """As `part`, of the network of this name; NetworkError: there is none."""
    return part(trace, trace.networks[networks.find(trace.networks, name)])


def image_pages(image: bytes | memoryview) -> list[bytes]:
    """The pages of an image, the last one filled up with zeros."""
    data = memoryview(image)
    return [bytes(data[at : at + PAGE_BYTES]).ljust(PAGE_BYTES, b"\0") for at in range(0, len(data), PAGE_BYTES)]
