# SPDX-License-Identifier: BSD-2-Clause
"""Values as CBOR, and back by their types: for answers of a process that may be an attacker's.

Pickle would run what the attacker says. Here the reader says which classes there are, by the type that it expects:
dataclasses, results, enumerations, NumPy arrays of numbers, and what they are made of. Nothing else can come out.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import cbor2
import msgspec
import numpy as np

from host_tools.support.results import Result, fields
from trace_format.errors import GramophoneError

PLAIN = (bool, int, float, str, bytes)
NUMBERS = "biufc"  # kinds of NumPy's types whose bytes are the values


class PlainError(GramophoneError):
    """What was read is not a value of the type that was expected."""


def dumps(value: Any) -> bytes:
    """A value of the kinds that the module's text names, as CBOR.

    Raises:
        TypeError: it is of another.
    """
    return cbor2.dumps(_plain(value))


def dump(value: Any, file: IO[bytes]) -> None:
    """As `dumps`, into a file."""
    cbor2.dump(_plain(value), file)


def load(kind: Any, file: IO[bytes]) -> Any:
    """As `loads`, of what is left in a file."""
    return _loaded(kind, lambda: cbor2.load(file))


def loads(kind: Any, data: bytes) -> Any:
    """The value of type `kind` that `dumps` wrote.

    Args:
        kind: a `Result`, dataclass, enumeration, `NDArray`, or of them `tuple[..]`, `list[..]`, `dict[..]`,
            `X | Y`; `Any` is what JSON has, and bytes.
        data: from anybody.

    Raises:
        PlainError: it is no such value.
    """
    return _loaded(kind, lambda: cbor2.loads(data))


def _loaded(kind: Any, read: Callable[[], Any]) -> Any:
    try:
        return _typed(kind, read())
    except (cbor2.CBORDecodeError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise PlainError(f"expected {_name(kind)}, found something else: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if value is None or type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in NUMBERS:
            raise TypeError(f"an array of {value.dtype}")
        return [value.dtype.str, list(value.shape), value.tobytes()]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Path | str):
        return str(value)
    if isinstance(value, Result):
        return fields(value)
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, item.name)) for item in dataclasses.fields(value) if item.init]
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be written as plain data")


def _typed(kind: Any, data: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _any(data)
    if origin in (typing.Union, types.UnionType):
        return _one_of(inner, data)
    if kind is None or kind is type(None):
        return _of(type(None), data)
    if kind is float:
        return float(_of((int, float), data))
    if kind in PLAIN:
        return _of(kind, data)
    if kind is Path:
        return Path(_of(str, data))
    if origin is np.ndarray or kind is np.ndarray:
        return _array(data)
    if isinstance(kind, type) and issubclass(kind, Result):
        return msgspec.convert(data, kind)
    if dataclasses.is_dataclass(kind):
        types_of = _fields(typing.cast(Any, kind))
        values = zip(types_of.items(), _of(list, data), strict=True)
        return typing.cast(Any, kind)(**{name: _typed(inside, item) for (name, inside), item in values})
    if origin is not None and issubclass(origin, Mapping):
        items = _of(dict, data).items()
        return {_typed(inner[0], key): _typed(inner[1], item) for key, item in items}
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_typed(part, item) for part, item in zip(inner, _of(list, data), strict=True))
    if origin in (tuple, set, frozenset):
        return origin(_typed(inner[0], item) for item in _of(list, data))
    if origin is not None:  # a list, or an interface of one
        return [_typed(inner[0], item) for item in _of(list, data)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    raise TypeError(f"{kind} is not plain data")


def _of(kind: Any, data: Any) -> Any:
    """Data that is exactly of one of these types: a bool is no int."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(data) not in kinds:
        raise TypeError(f"expected {' or '.join(item.__name__ for item in kinds)}, found {type(data).__name__}")
    return data


def _any(data: Any) -> Any:
    if isinstance(data, dict):
        return {_of(str, key): _any(item) for key, item in data.items()}
    if type(data) is list:
        return [_any(item) for item in data]
    return _of((*PLAIN, type(None)), data)


def _one_of(kinds: tuple[Any, ...], data: Any) -> Any:
    for kind in kinds[:-1]:
        try:
            return _typed(kind, data)
        except (TypeError, ValueError):
            continue
    return _typed(kinds[-1], data)


def _array(data: Any) -> Any:
    name, shape, values = _of(list, data)
    dtype = np.dtype(_of(str, name))
    if dtype.kind not in NUMBERS:
        raise TypeError(f"an array of {dtype}")
    sizes = [_of(int, size) for size in _of(list, shape)]
    if min(sizes, default=0) < 0:
        raise ValueError("a negative size")
    return np.frombuffer(bytearray(_of(bytes, values)), dtype).reshape(sizes)


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {item.name: hints[item.name] for item in dataclasses.fields(kind) if item.init}


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
