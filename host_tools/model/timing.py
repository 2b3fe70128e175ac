# SPDX-License-Identifier: BSD-2-Clause
"""How long jobs take on a chip, by what they do: estimates with an interval, never a time of hardware.

The constants stand in `timing.toml` of the GPU's family, which says of each what it rests on; how a dispatch's
counts become parts of its time is `Family.time_parts`. A chip's spread: what measured times were of
estimated ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from host_tools.families.family import part_of
from host_tools.families.timing import Parts, Timing, total
from host_tools.support.gpu_folders import FOLDERS
from host_tools.vgpu.binding import Dispatch
from trace_format import limits
from trace_format.errors import TraceError
from trace_format.files import read_file
from trace_format.toml_table import Table, loads, over

NOTICE = "estimates of a model, no times of hardware; eight of ten are expected between low and high"
FILE = "timing.toml"
LARGEST = 1e6  # of a constant


class TimingError(TraceError):
    """There are no constants of a chip, or its file is malformed."""


@dataclass(frozen=True)
class Constant:
    """A constant: its value, and what it may be at best and at worst for the time.

    Attributes:
        guess: no source fixes it.
    """

    value: float
    best: float
    worst: float
    unit: str
    source: str
    guess: bool


@dataclass(frozen=True)
class Chip:
    """A chip on a board.

    Attributes:
        name: as `--chip` takes it.
        gpu: name of its profile.
        low, high: measured time over estimated time, of eight jobs of ten.
    """

    name: str
    title: str
    gpu: str
    low: float
    high: float
    constants: Mapping[str, Constant]

    def values(self, which: str = "value") -> dict[str, float]:
        """The constants' numbers: "value", "best" or "worst"."""
        return {name: getattr(constant, which) for name, constant in self.constants.items()}


@dataclass(frozen=True)
class Estimate:
    """A time in microseconds, and the interval in which eight of ten are expected."""

    us: float
    low_us: float
    high_us: float


@dataclass(frozen=True)
class JobTime(Estimate):
    """A job's time, where it goes, and which resource has most of it."""

    parts: dict[str, float]
    binds: str


def estimate(rows: Sequence[Dispatch], chip: Chip, cores: int = 0) -> JobTime:
    """The time of a job that runs these dispatches one after another. None: that of starting it.

    Args:
        rows: what they do.
        chip: on which.
        cores: on how many of its cores; 0: on all.

    Raises:
        TimingError: nothing is known of the chip's time, or there are no parts of its cores.
    """
    timing = timing_of(chip)
    parts_of, on_cores = timing.time_parts, timing.on_cores
    if cores and on_cores is None:
        raise TimingError(f"{chip.name}: its jobs run on all of its cores, none on {cores} of them")
    given = rows or (Dispatch(**{field.name: 0 for field in fields(Dispatch)}),)
    found = {}
    for which in ("best", "worst", "value"):
        values = chip.values(which)
        each = [parts_of(row, on_cores(row, values, cores) if on_cores and cores else values) for row in given]
        found[which] = sum(total(parts, values["serial"]) for parts in each)
    parts = {field.name: sum(getattr(one, field.name) for one in each) for field in fields(Parts)}
    return JobTime(
        found["value"],
        found["best"] * chip.low,
        found["worst"] * chip.high,
        parts,
        max(parts, key=lambda name: parts[name]),
    )


def timing_of(chip: Chip) -> Timing:
    """How its family tells where time goes; TimingError: nothing is known of it."""
    timing = part_of(chip.gpu, Timing)
    if timing is None:
        raise TimingError(f"GPU {chip.gpu}: the time model does not know it")
    return timing


def together(times: Sequence[Estimate]) -> Estimate:
    """All of them, one after another: errors of one chip's constants do not cancel out."""
    return Estimate(*(sum(getattr(time, name) for time in times) for name in ("us", "low_us", "high_us")))


@functools.cache
def chips() -> dict[str, Chip]:
    """All chips by name.

    Raises:
        TimingError: a file is malformed.
    """
    return {
        chip.name: chip
        for folder in FOLDERS
        if (folder / FILE).exists()
        for chip in read_chips(read_file(folder / FILE))
    }


def chip_of(gpu: str, name: str | None = None, known: Mapping[str, Chip] | None = None) -> Chip:
    """The chip of this name, or the one that has this GPU.

    Args:
        known: chips by name; None: those of the families' files.

    Raises:
        TimingError: there is none, or it has another GPU.
    """
    known = chips() if known is None else known
    if name is None:
        for chip in known.values():
            if chip.gpu == gpu:
                return chip
        have = ", ".join(sorted({chip.gpu for chip in known.values()}))
        raise TimingError(f"no chip with GPU {gpu} has constants; there are some of {have}")
    if name not in known:
        raise TimingError(f"no chip is called {name}; there are: {', '.join(known)}")
    if known[name].gpu != gpu:
        raise TimingError(f"{name} has another GPU than the trace", expected=known[name].gpu, found=gpu)
    return known[name]


def read_chips(text: bytes) -> list[Chip]:
    """The chips of a `timing.toml`.

    Raises:
        TimingError: it is malformed.
    """
    rows = loads(text, TimingError)
    return [_chip(name, rows) for name in rows]


def read_constants(file: Path) -> dict[str, Chip]:
    """The chips of a file of constants, by name; TimingError: it is malformed."""
    try:
        return {chip.name: chip for chip in read_chips(read_file(file, limits.SMALL_BYTES))}
    except TimingError as error:
        raise TimingError(f"{file}: {error}") from error


def _chip(name: str, rows: dict[str, Any]) -> Chip:
    table = Table(_whole(name, rows), name, TimingError)
    spread, constants = table.table("spread"), table.table("constant")
    chip = Chip(
        name,
        table.text("title"),
        table.text("gpu"),
        _positive(spread, "low"),
        _positive(spread, "high"),
        {key: _constant(constants.table(key)) for key in list(constants.rows)},
    )
    if not chip.low <= 1 <= chip.high:
        raise spread.fail("1 does not lie between low and high")
    for part in (table, spread, constants):
        part.end()
    return chip


def _whole(name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """A chip's table with what it takes from those that it is like."""
    if not isinstance(rows[name], dict):
        raise TimingError(f"{name}: expected a chip's table")
    row: dict[str, Any] = rows[name]
    seen = [name]
    while "like" in row:
        other = row["like"]
        if not isinstance(rows.get(other), dict) or other in seen:
            raise TimingError(f"{name}: like {other!r}, which is no other chip of the file")
        seen.append(other)
        row = over(rows[other], {key: value for key, value in row.items() if key != "like"})
    return row


def _constant(table: Table) -> Constant:
    found = Constant(
        _number(table, "value"),
        _number(table, "best"),
        _number(table, "worst"),
        table.text("unit"),
        table.text("source"),
        table.take("guess", bool, False) is True,
    )
    table.end()
    low, high = sorted((found.best, found.worst))
    if not low <= found.value <= high:
        raise table.fail("the value does not lie between best and worst")
    return found


def _number(table: Table, key: str) -> float:
    value = float(table.take(key, float))
    if not (math.isfinite(value) and 0 <= value <= LARGEST):
        raise table.fail(key, f"0 to {LARGEST:g}", value)
    return value


def _positive(table: Table, key: str) -> float:
    value = _number(table, key)
    if value == 0:
        raise table.fail(key, "a number above 0", value)
    return value
