# SPDX-License-Identifier: BSD-2-Clause
"""Figures of earlier runs of `make bench`: a file with one JSON object a line, and what changed since."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from host_tools.support import programs
from host_tools.support.files import write_atomically
from trace_format.errors import GramophoneError

SAME = 0.005  # of a figure: a smaller change is not shown


def flat(value: Any, name: str = "") -> dict[str, float]:
    """All numbers in nested dictionaries and lists, by the names that lead to them."""
    if isinstance(value, bool) or value is None:
        return {}
    if isinstance(value, int | float):
        return {name: value}
    found: dict[str, float] = {}
    if isinstance(value, dict):
        own = value.get("name")  # of a row
        start = f"{name}.{own}" if isinstance(own, str) else name
        for key, item in value.items():
            found |= flat(item, f"{start}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for item in value:
            found |= flat(item, name)
    return found


def last(path: Path) -> dict[str, Any] | None:
    """The latest entry; None: there is none.

    Raises:
        GramophoneError: a line is not what `add` writes.
    """
    if not path.exists():
        return None
    entry = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            if not (isinstance(entry, dict) and isinstance(entry["figures"], dict)):
                raise ValueError
            entry["commit"], entry["time"]
        except (ValueError, KeyError):
            raise GramophoneError(
                f"{path}, line {number}: expected an entry of 'make bench' (commit, time, figures)"
            ) from None
    return entry


def add(path: Path, figures: dict[str, float]) -> None:
    """Append an entry, with the commit and the time."""
    entry = {"commit": _commit(), "time": datetime.now(UTC).isoformat(timespec="seconds"), "figures": figures}
    before = path.read_bytes() if path.exists() else b""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, before + json.dumps(entry, sort_keys=True).encode() + b"\n")


def changes(before: dict[str, float], now: dict[str, float]) -> list[tuple[str, float, float]]:
    """(name, before, now) of figures that both have and that are not the same."""
    both = [(name, before[name], now[name]) for name in now if name in before]
    return [row for row in both if abs(row[2] - row[1]) > SAME * max(abs(row[1]), abs(row[2]))]


def _commit() -> str:
    """The checkout's commit, with a + where files differ from it; "" outside of one."""
    describe = ["git", "describe", "--always", "--abbrev=12", "--dirty=+"]
    return programs.run(describe, cwd=Path(__file__).parent).stdout.strip()
