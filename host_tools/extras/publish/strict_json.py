# SPDX-License-Identifier: BSD-2-Clause
"""JSON documents of other programs that are signed: read so that they say one thing only.

A name that is given twice, or a number that JSON does not have, is read differently by different programs.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from host_tools.extras.publish.errors import DocumentError

T = TypeVar("T")
_KINDS = {str: "text", int: "an integer", list: "a list", dict: "an object"}


def parse(data: bytes, what: str) -> Fields:
    """The object that a document is.

    Args:
        data: the whole document, UTF-8.
        what: it is, for errors.

    Raises:
        DocumentError: it is no JSON object, or one that can be read in two ways.
    """
    try:
        found = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise DocumentError(f"{what}: not UTF-8", offset=error.start) from None
    except json.JSONDecodeError as error:
        raise DocumentError(f"{what}: not JSON ({error.msg})", offset=error.pos) from None
    except _TwiceError as error:
        raise DocumentError(f"{what}: {error}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a number of too many digits
        raise DocumentError(f"{what}: not JSON that is read ({type(error).__name__})") from None
    return Fields.of(found, what)


class _TwiceError(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(f"{name!r} is given twice")
        found[name] = value
    return found


def _constant(text: str) -> Any:
    raise _TwiceError(f"{text} is no number of JSON")


@dataclass(frozen=True)
class Fields:
    """An object of a document.

    Attributes:
        values: what is in it.
        what: where it is, for errors.
    """

    values: dict[str, Any]
    what: str

    @classmethod
    def of(cls, value: Any, what: str) -> Fields:
        """An object; DocumentError where it is none."""
        return cls(_of(dict, value, what), what)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def place(self, name: str) -> str:
        """Where a field is, for errors."""
        return f"{self.what}: {name}"

    def text(self, name: str) -> str:
        """A text; this and all others: DocumentError where it is missing, or another thing."""
        found = self._get(str, name)
        try:
            found.encode()
        except UnicodeEncodeError:  # half a pair of surrogates, which JSON can write and UTF-8 cannot
            raise DocumentError(self.place(name), expected="text", found=short(found)) from None
        return found

    def integer(self, name: str) -> int:
        """An integer, not negative: a number, or as Protobuf's JSON has it, a text of digits."""
        value = self.values.get(name)
        if isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]{0,18}", value):
            value = int(value)
        found = _of(int, value, self.place(name))
        if isinstance(found, bool) or not 0 <= found < 1 << 63:
            raise DocumentError(self.place(name), expected="an integer from 0 to 2^63 - 1", found=short(found))
        return found

    def entries(self, name: str, most: int) -> list[Any]:
        """A list of at most so many."""
        found = self._get(list, name)
        if len(found) > most:
            raise DocumentError(f"{self.place(name)}: entries", expected=f"at most {most}", found=len(found))
        return found

    def part(self, name: str) -> Fields:
        """An object."""
        return Fields(self._get(dict, name), self.place(name))

    def parts(self, name: str, most: int) -> Iterator[Fields]:
        """A list of objects."""
        for index, value in enumerate(self.entries(name, most)):
            yield Fields.of(value, f"{self.place(name)}[{index}]")

    def data(self, name: str) -> bytes:
        """Bytes, in one of the two alphabets of RFC 4648."""
        return from_base64(self.text(name), self.place(name))

    def _get(self, kind: type[T], name: str) -> T:
        return _of(kind, self.values.get(name), self.place(name))


def from_base64(text: str, what: str) -> bytes:
    """Bytes of base64, in one of the two alphabets of RFC 4648; DocumentError where it is none."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise DocumentError(what, expected="base64", found=short(text)) from None


def _of(kind: type[T], value: Any, what: str) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DocumentError(what, expected=_KINDS[kind], found=short(value))
    return value


def short(value: object) -> str:
    """A foreign value in an error message, on one line and not too long."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
