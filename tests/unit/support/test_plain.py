# SPDX-License-Identifier: BSD-2-Clause
"""Values as plain data: what is written is read again, and nothing else comes out."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from host_tools.support import plain
from host_tools.support.plain import PlainError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    number: int
    colour: Colour


@dataclass(frozen=True)
class Outer:
    name: str
    data: bytes
    real: float
    inner: Inner | None
    many: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    by_name: dict[str, list[int]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    path: Path = Path()
    anything: Any = None


INNER = st.builds(Inner, st.integers(-(2**70), 2**70), st.sampled_from(Colour))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(
    st.builds(
        Outer,
        name=st.text(),
        data=st.binary(),
        real=st.floats(allow_nan=False),
        inner=st.none() | INNER,
        many=st.lists(INNER, max_size=3).map(tuple),
        pair=st.tuples(st.integers(), st.text()),
        by_name=st.dictionaries(st.text(), st.lists(st.integers())),
        names=st.frozensets(st.text()),
        path=st.sampled_from([Path("a/b"), Path("/c")]),
        anything=JSON,
    )
)
def test_round_trip(value: Outer) -> None:
    assert plain.loads(Outer, plain.dumps(value)) == value


@given(
    arrays.arrays(
        st.sampled_from([np.dtype(name) for name in ("<f4", "<f2", "i1", "<i4", "?", ">u2", "<c8")]),
        arrays.array_shapes(min_dims=0, min_side=0),
    )
)
def test_arrays(value: NDArray[Any]) -> None:
    found = plain.loads(NDArray[Any], plain.dumps(value))
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.tobytes() == value.tobytes()
    assert found.flags.writeable


@given(st.binary())
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PlainError, match="expected Outer, found something else"):
        plain.loads(Outer, data)


WRONG = {
    "a bool as a number": (int, True),
    "a number as text": (str, 1),
    "too few fields": (Inner, [1]),
    "too many fields": (Inner, [1, "red", 2]),
    "no such colour": (Inner, [1, "green"]),
    "a list as a tuple of two": (tuple[int, str], [1]),
    "another kind of key": (dict[str, int], {1: 1}),
    "none of two": (int | None, "text"),
    "an array of objects": (NDArray[Any], ["|O", [1], bytes(8)]),
    "an array of structures": (NDArray[Any], ["V8", [1], bytes(8)]),
    "an array of another size": (NDArray[Any], ["<f4", [3], bytes(8)]),
    "an array of a size to be found": (NDArray[Any], ["<f4", [-1], bytes(8)]),
    "what is no plain data, as anything": (Any, cbor2.CBORTag(30, [1, 2])),
    "a class that is not described": (object, 1),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_of_the_type(case: str) -> None:
    kind, data = WRONG[case]
    with pytest.raises(PlainError, match="expected"):
        plain.loads(kind, cbor2.dumps(data))


@pytest.mark.parametrize("value", [object(), {1: object()}, np.array([None])])
def test_what_cannot_be_written(value: Any) -> None:
    with pytest.raises(TypeError):
        plain.dumps(value)
