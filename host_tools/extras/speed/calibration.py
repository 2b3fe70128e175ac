# SPDX-License-Identifier: BSD-2-Clause
"""A chip's constants fitted to times of replays that a board has measured.

Constants move where `timing.toml` leaves them room, between a quarter of what they are at best or worst and four
times that, and only as far as the measured times ask for: what these say nothing of stays. So a few replays that
each stress something else settle what is guessed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from host_tools.families.timing import total
from host_tools.model.timing import LARGEST, Chip, Constant, TimingError, timing_of
from host_tools.vgpu.binding import Dispatch

ROOM = 4.0  # times best and worst
PULL = 0.001  # of a constant, by the room that it has, to where it was, against a time's error
ENOUGH = 1e-7  # less of that is not worth a step
ROUNDS, STEPS = 60, 24
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Measured:
    """A replay on a board.

    Attributes:
        name: of its trace.
        rows: what its dispatches do.
        us: how long it took, in microseconds; the CPU's part is in it.
    """

    name: str
    rows: Counter[Dispatch]
    us: float


@dataclass(frozen=True)
class Calibrated:
    """What came of it.

    Attributes:
        chip: with the new constants; its interval is that of replays left out, of fewer than three as it was.
        before, after: estimates in microseconds, a replay each.
        left_out: estimates of each replay by a fit to the others; empty for fewer than three.
    """

    chip: Chip
    before: tuple[float, ...]
    after: tuple[float, ...]
    left_out: tuple[float, ...]


def calibrate(chip: Chip, measured: Sequence[Measured]) -> Calibrated:
    """Fit a chip's constants.

    Raises:
        TimingError: no replay, one without jobs, or a time that is none.
    """
    if not measured:
        raise TimingError("no replay was measured")
    for one in measured:
        if not one.rows:
            raise TimingError(f"{one.name}: it has no dispatches that are counted")
        if not (math.isfinite(one.us) and 0 < one.us <= 600e6):
            raise TimingError(f"{one.name}: its time", expected="1 to 600000000 microseconds", found=one.us)
    values = _fitted(chip, measured)
    after = tuple(_estimate(chip, values, one) for one in measured)
    others: tuple[float, ...] = ()
    if len(measured) > 2:
        others = tuple(
            _estimate(chip, _fitted(chip, [*measured[:at], *measured[at + 1 :]]), one)
            for at, one in enumerate(measured)
        )
    # What a fit says of its own replays is no error: the interval stays where there are too few to leave one out.
    ratios = [one.us / us for one, us in zip(measured, others, strict=True)] if others else [chip.low, chip.high]
    constants = {name: _moved(chip.constants[name], values[name], len(measured)) for name in chip.constants}
    fitted = replace(chip, low=min(1.0, *ratios), high=max(1.0, *ratios), constants=constants)
    before = tuple(_estimate(chip, chip.values(), one) for one in measured)
    return Calibrated(fitted, before, after, others)


def mean_error(estimates: Sequence[float], measured: Sequence[Measured]) -> float:
    """Mean of the relative errors."""
    return float(np.mean([abs(us / one.us - 1) for us, one in zip(estimates, measured, strict=True)]))


def free(chip: Chip) -> dict[str, tuple[float, float]]:
    """The constants that may move, and between what."""
    found = {}
    for name, constant in chip.constants.items():
        low, high = sorted((constant.best, constant.worst))
        if low < high:
            # A share stays one, and what may be nothing may stay so.
            share = high <= 1 and low == 0
            found[name] = (low, high) if share else (low / ROOM, min(high * ROOM, LARGEST))
    return found


def _estimate(chip: Chip, values: Mapping[str, float], one: Measured) -> float:
    parts_of = timing_of(chip).time_parts
    return sum(times * total(parts_of(row, values), values["serial"]) for row, times in one.rows.items())


def _fitted(chip: Chip, measured: Sequence[Measured]) -> dict[str, float]:
    """Constants, one at a time to where they fit best: always the one that helps most, so that few move."""
    values, begin, room = chip.values(), chip.values(), free(chip)
    span = {name: abs(chip.constants[name].worst - chip.constants[name].best) for name in room}

    def loss(tried: Mapping[str, float]) -> float:
        errors = [math.log(_estimate(chip, tried, one) / one.us) for one in measured]
        moved = sum(((tried[name] - begin[name]) / span[name]) ** 2 for name in room)
        return sum(error * error for error in errors) + PULL * moved

    now = loss(values)
    for _ in range(ROUNDS):
        tries = {
            name: _least(lambda value, name=name: loss(values | {name: value}), low, high)  # type: ignore[misc]
            for name, (low, high) in room.items()
        }
        losses = {name: loss(values | {name: value}) for name, value in tries.items()}
        best = min(losses, key=lambda name: losses[name], default="")
        if not best or now - losses[best] < ENOUGH:
            break
        values[best], now = tries[best], losses[best]
    return values


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where a function is least: golden sections, of logarithms where a range spans much."""
    wide = low > 0 and high / low > ROOM
    to, back = (math.log, math.exp) if wide else (float, float)
    first, last = to(low), to(high)
    for _ in range(STEPS):
        one, other = last - GOLDEN * (last - first), first + GOLDEN * (last - first)
        if loss(back(one)) <= loss(back(other)):
            last = other
        else:
            first = one
    return back((first + last) / 2)


def _moved(constant: Constant, value: float, count: int) -> Constant:
    """A constant as fitted: where it moved, it is no guess any more, but the board's."""
    low, high = sorted((constant.best, constant.worst))
    if low == high or abs(value - constant.value) <= 1e-3 * (high - low):
        return constant
    best, worst = (min(low, value), max(high, value))
    if constant.best > constant.worst:
        best, worst = worst, best
    source = f"fitted to {count} replays on a board; before: {constant.value:g}"
    return Constant(value, best, worst, constant.unit, source, False)


def written(chip: Chip) -> str:
    """A chip's constants as `timing.toml` has them, for `time --constants`."""
    lines = [f"# Constants of one board, by `gramophone speed calibrate`. See docs/TIME.md.\n\n[{chip.name}]"]
    lines += [f"title = {json.dumps(chip.title)}", f"gpu = {json.dumps(chip.gpu)}"]
    lines.append(f"spread = {{ low = {chip.low!r}, high = {chip.high!r} }}")
    for name, constant in chip.constants.items():
        lines.append(f"\n[{chip.name}.constant.{name}]")
        lines += [f"{key} = {float(getattr(constant, key))!r}" for key in ("value", "best", "worst")]
        lines += [f"unit = {json.dumps(constant.unit)}", f"source = {json.dumps(constant.source)}"]
        lines += ["guess = true"] if constant.guess else []
    return "\n".join(lines) + "\n"
