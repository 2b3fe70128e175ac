# SPDX-License-Identifier: BSD-2-Clause
"""TOML tables that are read strictly: each key is asked for once, has the expected type, and none is left over."""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import Any

from trace_format import limits
from trace_format.errors import TraceError, meant, printable

# A key, at the beginning of a line or in a table within braces: its first parts and a further one. What looks like
# one in a text is refused, too.
_PART = rb"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP = re.compile(
    rb"(?m)(?:^[ \t]*+\[{0,2}|[{,])[ \t]*+(?:%b[ \t]*+\.[ \t]*+){%d}" % (_PART, limits.KEY_PARTS),
)


def loads(text: bytes, error: type[TraceError], file: str = "") -> dict[str, Any]:
    """What a TOML file says; `error`, with the file's name, where it is none, or where a key has too many parts.

    The reader of Python keeps a table for each part of each key, and the names of all parts before it.
    """
    if deep := _DEEP.search(text):
        raise error(
            "a key with dots",
            file=file,
            offset=deep.start(),
            expected=f"at most {limits.KEY_PARTS} parts",
            found=deep[0][:60].decode("utf-8", "replace"),
        )
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as reason:  # also of a number with thousands of digits
        raise error(f"not TOML: {reason}", file=file) from None


class Table:
    """A TOML table of which every key must be read.

    Attributes:
        rows: keys that have not been read yet.
        where: what the table is, as the start of a sentence; "" for the whole file.
    """

    def __init__(self, rows: dict[str, Any], where: str, error: type[TraceError]) -> None:
        self.rows = dict(rows)
        self.where = where
        self._error = error
        self._known: set[str] = set()  # all keys that were asked for

    def fail(self, what: str, expected: object = None, found: object = None) -> TraceError:
        """An error in this table."""
        return self._error(f"{self.where}: {what}" if self.where else what, expected=expected, found=found)

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of a key, which must be of this type; without a default it must be there."""
        self._known.add(key)
        if key not in self.rows:
            if default is None:
                raise self.fail(f"{key} is missing{self.instead(key)}")
            return default
        value = self.rows.pop(key)
        if type(value) is not kind:
            raise self.fail(key, f"a value of type {kind.__name__}", repr(value))
        return value

    def instead(self, *keys: str) -> str:
        """The unread key that may be one of these, which are missing, misspelt; "" if none may."""
        near = [found for key in keys for found in difflib.get_close_matches(key, self.rows, 1)]
        return f" (is it {printable(near[0])!r}, misspelt?)" if near else ""

    def text(self, key: str) -> str:
        """A text that says something."""
        value = str(self.take(key, str))
        if not value.strip():
            raise self.fail(f"{key} is empty")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where the key is not there."""
        values = self.take(key, list, [])
        if any(type(value) is not str for value in values):
            raise self.fail(key, "a list of texts", values)
        return tuple(values)

    def number(self, key: str, limit: int, default: int | None = None) -> int:
        """A number from 0 to below `limit`."""
        value = int(self.take(key, int, default))
        if not 0 <= value < limit:
            raise self.fail(key, f"0 to {limit - 1:#x}", f"{value:#x}")
        return value

    def table(self, key: str, default: dict[str, Any] | None = None) -> Table:
        """A table in this one."""
        where = f"{self.where}.{key}" if self.where else key
        return Table(self.take(key, dict, default), where, self._error)

    def end(self) -> None:
        """No key is left."""
        if self.rows:
            left = sorted(self.rows)
            raise self.fail(f"unknown keys {', '.join(left)}{meant(left[0], self._known - self.rows.keys())}")


def over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A copy of `base` with what `own` has, tables one by one: what a file says that is `like` another."""
    return base | {
        key: over(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in own.items()
    }
