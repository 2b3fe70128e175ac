# SPDX-License-Identifier: BSD-2-Clause
"""Secure memory that a replayer takes for a trace, to the byte: tee_replayer/core/load.c."""

from __future__ import annotations

from host_tools.families.family import family_of
from host_tools.model.parts import part
from trace_format import packing
from trace_format.schema import ALIGNMENT
from trace_format.trace import Trace

BEFORE_HEAD_BYTES = 40  # what is signed before the head


def aligned(size: int) -> int:
    """A size in whole words of memory."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def memory_for(trace: Trace, head_bytes: int, chunk_bytes: int, *, cached: int = 0, judged: int = 0) -> int:
    """How much a replayer takes.

    Args:
        head_bytes, chunk_bytes: of the trace's header.
        cached: bytes at the carve-out's end that the device caches, and so keeps from the GPU.
        judged: for what a device judges by a trust policy.
    """
    work = trace.actions.nbytes + len(trace.slots) * packing.size_of("slot") + chunk_bytes
    tables = family_of(trace.gpu).page_tables
    parts = [part(trace, network) for network in trace.networks] or [trace]
    low = trace.carveout_bytes + sum(tables.device_bytes(one) for one in parts)
    return low + max(judged + aligned(BEFORE_HEAD_BYTES + head_bytes) + aligned(work), cached)
