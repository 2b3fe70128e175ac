# SPDX-License-Identifier: BSD-2-Clause
"""Registers of a GPU, and what a trace may do to each: the table `registers` of a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trace_format.errors import ProfileError

ALL_BITS = 0xFFFFFFFF
NO_TRACE = "none"  # value of `replay`: a trace may neither write nor read the register
_FOR_TRACES = {"offset", "access", "bits", "busy", "volatile", "replay"}  # keys of a register
NOT_FOR_TRACES = {"reset", "source", "model"}  # keys of a register, for the virtual GPU and the documents


@dataclass(frozen=True)
class Register:
    """One register.

    Attributes:
        name: `block.NAME`.
        offset: byte offset in the register window, a multiple of 4.
        readable, writable: as the hardware defines it.
        bits: bits that a write may set, by the hardware.
        busy: bits that read one while the hardware is at work.
        volatile: bits whose value a replay must not compare.
        replay_bits: what the profile says of writes by a trace: bits that it may set; None: nothing. Others
            than this class ask `may_write`, `may_set` and `accepts`.
        replay_set: bits that must be one in every write by a trace.
        replay_idle: a trace may write it only while no job runs and no fault is there.
        driver: only the replayer's nano driver writes it.
        hidden: no trace may touch it.
        reset: value that the virtual GPU has after a reset.
        modelled: the virtual GPU has it.
        model_lacks: bits that the virtual GPU refuses in a write although the hardware has them.
        source: where the facts come from, if not from the profile's sources; "" otherwise.
    """

    name: str
    offset: int
    readable: bool
    writable: bool
    bits: int
    busy: int
    volatile: int
    replay_bits: int | None
    replay_set: int
    replay_idle: bool
    driver: bool
    hidden: bool
    reset: int
    modelled: bool
    model_lacks: int
    source: str

    @property
    def model_bits(self) -> int:
        """Bits that may be set in a write to the virtual GPU; a busy bit may be written back as it was read."""
        return (self.bits | self.busy) & ~self.model_lacks if self.writable else 0

    @property
    def may_write(self) -> bool:
        """Whether a trace may write it."""
        return self.replay_bits is not None and not self.driver and not self.hidden

    @property
    def may_set(self) -> int:
        """Bits that a trace may set; 0 where it may not write."""
        return (self.replay_bits or 0) if self.may_write else 0

    def accepts(self, value: int, mask: int = ALL_BITS) -> bool:
        """Whether a trace may write these bits of a value."""
        return self.may_write and not value & mask & ~self.may_set and not ~value & mask & self.replay_set

    @property
    def index(self) -> int:
        """Word index in the register window: the operand of register actions."""
        return self.offset // 4


def read_registers(file: str, data: dict[str, Any]) -> list[Register]:
    """All registers of a profile, those of each instance of a repeated block too."""
    found = []
    for block, rows in data["registers"].items():
        where = data["blocks"][block]
        for name, row in rows.items():
            _check_register(file, f"{block}.{name}", row, where)
            hidden = row.get("replay") == NO_TRACE or "board" in where
            for prefix, base in _instances(block, where):
                found.append(_register(f"{prefix}.{name}", base + row["offset"], row, hidden))
    _check_places(file, data["window_bytes"], found)
    return found


def _check_places(file: str, window_bytes: int, found: list[Register]) -> None:
    by_offset: dict[int, Register] = {}
    for register in found:
        other = by_offset.setdefault(register.offset, register)
        if other is not register:
            raise ProfileError(f"{register.name} and {other.name} share an offset", file=file)
        if not register.hidden and register.offset + 4 > window_bytes:
            raise ProfileError(f"{register.name} lies outside the register window", file=file)


def _check_register(file: str, name: str, row: dict[str, Any], where: dict[str, Any]) -> None:
    unknown = row.keys() - _FOR_TRACES - NOT_FOR_TRACES
    if unknown:
        raise ProfileError(f"{name} has unknown keys {sorted(unknown)}", file=file)
    if row["offset"] % 4 or not 0 <= row["offset"] < where["bytes"]:
        raise ProfileError(f"{name} is misplaced", file=file, offset=row["offset"])
    bits = row.get("bits", 0)
    may, must, _ = _limits(row)
    if may is not None and (may & ~bits or must & ~may):
        raise ProfileError(f"{name}: a trace may write bits that the register lacks", file=file)
    if _model_lacks(row) & ~(bits | row.get("busy", 0)):
        raise ProfileError(f"{name}: the model lacks bits that the register lacks too", file=file)


def _register(name: str, offset: int, row: dict[str, Any], hidden: bool) -> Register:
    may, must, idle = _limits(row)
    return Register(
        name,
        offset,
        "r" in row["access"],
        "w" in row["access"],
        row.get("bits", 0),
        row.get("busy", 0),
        row.get("volatile", 0),
        may,
        must,
        idle,
        row.get("replay") == "driver",
        hidden,
        row.get("reset", 0),
        row.get("model") != "none",
        _model_lacks(row),
        row.get("source", ""),
    )


def _limits(row: dict[str, Any]) -> tuple[int | None, int, bool]:
    """Bits that a trace may write (None: it may not write at all), that it must write, whether only when idle."""
    replay = row.get("replay", {})
    if isinstance(replay, str):
        if replay not in ("driver", NO_TRACE):
            raise ValueError(f"replay is {replay!r}")
        return None, 0, False
    return replay.get("bits"), replay.get("set", 0), bool(replay.get("idle", False))


def _model_lacks(row: dict[str, Any]) -> int:
    model = row.get("model", {})
    if isinstance(model, str):
        if model != "none":
            raise ValueError(f"model is {model!r}")
        return 0
    return int(model.get("lacks", 0))


def _instances(block: str, where: dict[str, Any]) -> list[tuple[str, int]]:
    """Name and base of a block, or of each of its `count` instances, which follow one another: js0, js1, ..."""
    if "count" not in where:
        return [(block, where["base"])]
    return [(f"{block}{i}", where["base"] + i * where["bytes"]) for i in range(where["count"])]
