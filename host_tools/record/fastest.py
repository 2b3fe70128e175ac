# SPDX-License-Identifier: BSD-2-Clause
"""Of a network's recordings by several compilers the one whose replay takes less time, by the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from host_tools.accesses.job_times import replay_time
from host_tools.machine.errors import RecordError
from host_tools.model.timing import Chip, Estimate, TimingError, chip_of
from host_tools.passes.pipeline import build
from host_tools.record.preflight import NetworkError
from host_tools.support.messages import LOG
from trace_format.actions import Columns, Op
from trace_format.trace import Trace


def chip_with_times(gpu: str) -> Chip:
    """A chip with this GPU whose times the model knows; NetworkError: there is none."""
    try:
        return chip_of(gpu)
    except TimingError as error:
        raise NetworkError(f"--compiler fastest: {error}") from None


def fastest(record: Callable[[str], Trace], compilers: Sequence[str], gpu: str) -> Trace:
    """Record by each compiler, and keep one recording.

    Args:
        record: makes the recording by a compiler; RecordError: it does not take the network.
        compilers: their names.
        gpu: what they record for.

    Raises:
        NetworkError: no chip with this GPU has constants, or no compiler takes the network.
    """
    chip = chip_with_times(gpu)
    found: list[tuple[float, str, Trace]] = []
    for by in compilers:
        try:
            trace = record(by)
            time = _time(trace, chip)
        except (RecordError, TimingError) as error:
            failed = error
            LOG.info("not by %s: %s", by, error)
            continue
        low, middle, high = (us / 1e3 for us in (time.low_us, time.us, time.high_us))
        LOG.info("by %s: %.2f ms a replay (%.2f to %.2f), by the model of %s", by, middle, low, high, chip.name)
        found.append((time.us, by, trace))
    if not found:
        raise NetworkError(f"no recording has a time; the last, by {by}: {failed}")
    _, kept, trace = min(found, key=lambda one: one[0])
    LOG.info("kept: the recording by %s", kept)
    return trace


def _time(trace: Trace, chip: Chip) -> Estimate:
    if Columns(trace.actions).is_op(Op.OPERATE).any():
        raise TimingError("the time model does not know the layers that the CPU computes")
    return replay_time(build(trace, trust_note=True, timeout_margin=None), chip)  # it was made a moment ago
