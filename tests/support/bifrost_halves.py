# SPDX-License-Identifier: BSD-2-Clause
"""What Bifrost operations on pairs of halves do, as bifrost_meaning.py has it for floats.

Encodings: Mesa 25.0.7 src/panfrost/compiler/bifrost/ISA.xml.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.bifrost_conversions import nearest, to_half, to_integer
from tests.support.bifrost_meaning import (
    COMPARE,
    FLOAT_CONDITIONS,
    FMA1,
    FMA2,
    FMA3,
    FMA4,
    Result,
    Row,
    Words,
    byte,
    clamped,
    f32,
    floats,
    half,
    largest,
    on_add,
    on_fma,
    rounded,
    source,
    truth,
)

PLACES = ((0, 0), (1, 0), (0, 1), (1, 1))  # halves that are elements 0 and 1, by code
H01 = 2  # the code of both where they are
FLIPPED = 0o01  # sources 1 and 0, in descending order


def value(x: Words, high: int, absolute: int = 0, negative: int = 0) -> NDArray[Any]:
    return source(x, f"h{high}", absolute, negative).astype(np.float64)


def both(element: Callable[[int], Words]) -> Words:
    return (element(0) & np.uint32(0xFFFF)) | element(1) << np.uint32(16)


def finished(exact: NDArray[Any], mode: int = 0, clamp: int = 0) -> Words:
    """Rounded to halves, then clamped."""
    once: Words = to_half(exact, mode)
    return to_half(clamped(source(once, "h0"), clamp), 0) if clamp else once


def fused(x: NDArray[Any], y: NDArray[Any], z: NDArray[Any], mode: int) -> Any:
    """x * y + z as numbers that are halves, rounded once."""
    out = x * y + z
    for i, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), z.tolist(), strict=True)):
        if np.isfinite([a, b, c]).all() and (exact := Fraction(a) * Fraction(b) + Fraction(c)):
            out[i] = rounded(exact, mode, digits=11, smallest=-14, most=65504)
    return out


def sum_rows() -> Iterator[Row]:
    for mode, clamp in itertools.product(range(4), range(4)):
        modifiers = mode << 13 | clamp << 15 | H01 << 9 | H01 << 11
        result: Result = lambda a, b, c, d, m=mode, k=clamp: both(  # noqa: E731
            lambda e: finished(value(a, e) + value(b, e), m, k)
        )
        yield on_fma("FADD.v2", 0x6C0000 | modifiers | FMA2, result)
        if not clamp:
            yield on_add("FADD.v2", 0xA0000 | modifiers | FMA2, result)
        yield on_fma(
            "FMA.v2",
            0x400000 | modifiers | H01 << 19 | FMA3,
            lambda a, b, c, d, m=mode, k=clamp: both(
                lambda e: finished(fused(value(a, e), value(b, e), value(c, e), m), m, k)
            ),
        )
    for p, q, r in itertools.product(range(4), repeat=3):
        yield on_fma(
            "FMA.v2",
            0x400000 | p << 9 | q << 11 | r << 19 | (p % 2) << 17 | (q % 2) << 18 | FMA3,
            lambda a, b, c, d, s=(p, q, r): both(
                lambda e: finished(
                    fused(
                        value(a, PLACES[s[0]][e], 0, s[0] % 2),
                        value(b, PLACES[s[1]][e]),
                        value(c, PLACES[s[2]][e], 0, s[1] % 2),
                        0,
                    )
                )
            ),
        )


def modified() -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, int]]]:
    """Of two sources whose absolute values are said by one bit and the order of their codes: the codes, modifiers,
    abs0, abs1, neg0, neg1, and swizzles."""
    for flipped, bit, neg0, neg1 in itertools.product((0, 1), repeat=4):
        p, q = (H01, flipped) if bit else (neg1, H01)
        word = bit << 6 | neg0 << 7 | neg1 << 8 | p << 9 | q << 11
        yield FLIPPED if flipped else FMA2, word, (flipped | bit, flipped & bit, neg0, neg1), (p, q)


def pair(a: Words, b: Words, codes: int, m: tuple[int, ...], places: tuple[int, int], e: int) -> tuple[Any, Any]:
    """Element e of two sources with their modifiers: abs0, abs1, neg0, neg1."""
    x, y = (b, a) if codes == FLIPPED else (a, b)
    return value(x, PLACES[places[0]][e], m[0], m[2]), value(y, PLACES[places[1]][e], m[1], m[3])


def comparison_rows() -> Iterator[Row]:
    for codes, word, m, places in modified():
        yield on_fma(
            "FADD.v2",
            0x6C0000 | word | codes,
            lambda a, b, c, d, k=codes, m=m, p=places: both(lambda e: finished(np.add(*pair(a, b, k, m, p, e)))),
        )
        yield on_fma(
            "FCMP.v2",
            0x640000 | 1 << 13 | word | codes,
            lambda a, b, c, d, k=codes, m=m, p=places: both(
                lambda e: truth(np.greater(*pair(a, b, k, m, p, e)), 1)
            ),
        )
        for sem, small in itertools.product(range(4), (0, 1)):
            yield on_add(
                "FMAX.v2",
                0x80000 | small << 16 | sem << 13 | word | codes,
                lambda a, b, c, d, k=codes, m=m, p=places, s=sem, low=small: both(
                    lambda e: to_half(f32(largest(*pair(a, b, k, m, p, e), s, bool(low))), 0)
                ),
            )
    for abs0, abs1, neg0, neg1 in itertools.product((0, 1), repeat=4):
        yield on_add(
            "FADD.v2",
            0xA0000 | abs1 << 6 | neg0 << 7 | neg1 << 8 | abs0 << 15 | abs0 << 9 | H01 << 11 | FMA2,
            lambda a, b, c, d, m=(abs0, abs1, neg0, neg1): both(
                lambda e: finished(np.add(*pair(a, b, FMA2, m, (m[0], H01), e)))
            ),
        )
    for (k, condition), (code, one), neg0 in itertools.product(
        enumerate(FLOAT_CONDITIONS), enumerate((1, 0x3C00, 0xFFFF)), (0, 1)
    ):
        if not neg0:
            yield on_fma(
                "FCMP.v2",
                0x640000 | FMA2 | H01 << 9 | H01 << 11 | k << 13 | code << 16,
                lambda a, b, c, d, n=condition, v=one: both(
                    lambda e: truth(COMPARE[n](value(a, e), value(b, e)), v)
                ),
            )
        yield on_add(
            "FCMP.v2",
            0xB0000 | k << 6 | H01 << 9 | (H01 + neg0) << 11 | neg0 << 13 | code << 14 | FMA2,
            lambda a, b, c, d, n=condition, v=one, m=neg0: both(
                lambda e: truth(COMPARE[n](*pair(a, b, FMA2, (0, 0, m, 0), (H01, H01 + m), e)), v)
            ),
        )
    for k, condition in enumerate(("eq", "gt", "ge")):
        yield on_fma(
            "CSEL.f32",
            0x2E0000 | k << 12 | FMA4,
            lambda a, b, c, d, n=condition: np.where(COMPARE[n](f32(a), f32(b)), c, d),
        )
        yield on_fma(
            "CSEL.v2f16",
            0x6E0000 | k << 12 | FMA4,
            lambda a, b, c, d, n=condition: both(
                lambda e: np.where(COMPARE[n](value(a, e), value(b, e)), half(c, e), half(d, e))
            ),
        )


def single_rows() -> Iterator[Row]:
    for mode, places, absolute, negative in itertools.product(range(4), range(4), (0, 1), (0, 1)):
        modifiers = places << 3 | absolute << 7 | negative << 8 | FMA1
        result: Result = lambda a, b, c, d, p=places, m=mode, x=absolute, n=negative: both(  # noqa: E731
            lambda e: to_half(nearest(value(a, PLACES[p][e], x, n), m), 0)
        )
        yield on_fma("FROUND.v2", 0x70C000 | mode << 9 | modifiers, result)
        yield on_add("FROUND.v2", 0x3E800 | mode << 9 | modifiers, result)
        if mode == 0:
            yield on_fma(
                "FROUND.v2.away",
                0x707600 | modifiers,
                lambda a, b, c, d, p=places, x=absolute, n=negative: both(
                    lambda e: to_half(
                        np.copysign(np.floor(np.abs(value(a, PLACES[p][e])) + 0.5), value(a, PLACES[p][e], x, n)),
                        0,
                    )
                ),
            )
    for mode in range(4):
        yield on_add(
            "LDEXP.v2",
            0x74E00 | mode << 6 | FMA2,
            lambda a, b, c, d, m=mode: both(
                lambda e: to_half(
                    np.ldexp(value(a, e), np.clip(half(b, e).astype(np.uint16).view(np.int16), -100, 100)), m
                )
            ),
        )
    for high, absolute, negative in itertools.product((0, 1), repeat=3):
        modifiers = high << 8 | absolute << 4 | negative << 3 | FMA1
        yield on_add(
            "FRCP.f16",
            0x67080 | modifiers,
            lambda a, b, c, d, m=(high, absolute, negative): to_half(1 / value(a, *m), 0),
        )
        yield on_add(
            "FRSQ.f16",
            0x67280 | modifiers,
            lambda a, b, c, d, m=(high, absolute, negative): to_half(1 / np.sqrt(value(a, *m)), 0),
        )


def limited(x: NDArray[Any], low: int, high: int) -> Words:
    return np.clip(np.where(np.isnan(x), 0, x), low, high).astype(np.int64).astype(np.uint32)


def integer_conversion_rows() -> Iterator[Row]:
    for mode, places in itertools.product(range(4), range(4)):
        modifiers = mode << 4 | places << 6 | FMA1
        for signed, (low, high) in ((True, (-(2**15), 2**15 - 1)), (False, (0, 2**16 - 1))):
            yield on_add(
                "V2F16_TO_INT",
                0x3C200 | 8 * (not signed) | modifiers,
                lambda a, b, c, d, m=mode, p=places, r=(low, high): both(
                    lambda e: limited(nearest(value(a, PLACES[p][e]), m), *r)
                ),
            )
            yield on_add(
                "INT_TO_V2F16",
                0x3C600 | 8 * (not signed) | modifiers,
                lambda a, b, c, d, m=mode, p=places, t=np.int16 if signed else np.uint16: both(
                    lambda e: to_half(half(a, PLACES[p][e]).astype(np.uint16).view(t).astype(np.float64), m)
                ),
            )
    for mode, high, signed in itertools.product(range(4), (0, 1), (True, False)):
        yield on_add(
            "F16_TO_INT",
            0x3C500 | 8 * (not signed) | mode << 4 | high << 7 | FMA1,
            lambda a, b, c, d, m=mode, h=high, s=signed: to_integer(floats(source(a, f"h{h}")), m, s),
        )
    for first, second, signed in itertools.product(range(4), range(4), (True, False)):
        word = 8 * (not signed) | first << 4 | second << 6 | FMA1
        element: Callable[..., Any] = lambda a, n, s=signed: (  # noqa: E731
            byte(a, n).astype(np.uint8).view(np.int8 if s else np.uint8)
        )
        yield on_add(
            "V2INT8_TO_V2INT16",
            0x3C700 | word,
            lambda a, b, c, d, p=(first, second), f=element: both(lambda e: f(a, p[e]).astype(np.uint32)),
        )
        yield on_add(
            "V2INT8_TO_V2F16",
            0x3C800 | word,
            lambda a, b, c, d, p=(first, second), f=element: both(
                lambda e: to_half(f(a, p[e]).astype(np.float64), 0)
            ),
        )


def half_pair_rows() -> Iterator[Row]:
    for rows in (sum_rows, comparison_rows, single_rows, integer_conversion_rows):
        yield from rows()
