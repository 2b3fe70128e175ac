# SPDX-License-Identifier: BSD-2-Clause
"""What Bifrost operations do that convert numbers, or help with divisions, roots, exponentials and logarithms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.bifrost_meaning import (
    FMA1,
    FMA2,
    Result,
    Row,
    Words,
    f32,
    floats,
    on_add,
    on_fma,
    s32,
    source,
    words,
)


def nearest(x: NDArray[Any], mode: int) -> Any:
    return (np.rint, np.ceil, np.floor, np.trunc)[mode](x)


def to_integer(x: Words, mode: int, signed: bool) -> Words:
    low, high = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
    value = nearest(f32(x).astype(np.float64), mode)
    return words(np.clip(np.where(np.isnan(value), 0, value), low, high))


def conversion_rows() -> Iterator[Row]:
    for signed in (True, False):
        yield on_fma(
            "F32_TO_INT", 0x7009B0 | 8 * (not signed) | FMA1, lambda a, b, c, d, s=signed: to_integer(a, 3, s)
        )
        back: Result = lambda a, b, c, d, s=signed: floats((s32(a) if s else a).astype(np.float64))  # noqa: E731
        yield on_fma("INT_TO_F32", 0x700BC0 | 8 * (not signed) | FMA1, back)
        yield on_add("INT_TO_F32", 0x3CBC0 | 8 * (not signed) | FMA1, back)
        for mode in range(4):
            yield on_add(
                "F32_TO_INT",
                0x3C980 | 8 * (not signed) | mode << 4 | FMA1,
                lambda a, b, c, d, s=signed, m=mode: to_integer(a, m, s),
            )
    for mode, absolute, negative in itertools.product(range(4), (0, 1), (0, 1)):
        result: Result = lambda a, b, c, d, m=mode, x=absolute, y=negative: floats(  # noqa: E731
            nearest(source(a, "", x, y), m)
        )
        modifiers = 1 << 3 | absolute << 7 | negative << 8 | FMA1
        yield on_fma("FROUND", 0x70C020 | mode << 9 | modifiers, result)
        yield on_add("FROUND", 0x3E820 | mode << 9 | modifiers, result)
        if mode == 0:
            yield on_fma(
                "FROUND.away",
                0x707620 | modifiers,
                lambda a, b, c, d, x=absolute, y=negative: floats(
                    np.copysign(np.floor(np.abs(f32(a).astype(np.float64)) + 0.5), source(a, "", x, y))
                ),
            )


def parts(x: NDArray[Any], form: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mantissa and exponent: x = m * 2^e, m * 4^e for a square root; 0.75 <= |m| < 1.5 for a logarithm."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    if form == "sqrt":
        odd = exponent % 2
        mantissa, exponent = mantissa / (1 + odd), (exponent + odd) // 2
    if form == "log":
        small = np.abs(mantissa) < 0.75
        mantissa, exponent = np.where(small, mantissa * 2, mantissa), exponent - small
    special = (x == 0) | ~np.isfinite(x)
    return np.where(special, x, mantissa), np.where(special, 0, exponent)


def reduction(x: NDArray[Any]) -> NDArray[Any]:
    """About 1 / m: of the middle of the sixteenth of an octave that m is in, in steps of 1/32."""
    mantissa = floats(parts(x, "log")[0])
    middle = f32((mantissa & np.uint32(0xFFF80000)) | np.uint32(0x40000)).astype(np.float64)
    return np.where((x == 0) | ~np.isfinite(x), 1.0, np.rint(32 / middle) / 32)


def table_rows() -> Iterator[Row]:
    for on, mantissa, exponent in ((on_fma, 0x700000, 0x700000), (on_add, 0x3C000, 0x3C000)):
        plain = 1 << 3 | FMA1
        for absolute, root in itertools.product((0, 1), (0, 1)):
            yield on(
                "FREXPM",
                mantissa | 0x1B20 | absolute << 6 | root << 7 | plain,
                lambda a, b, c, d, x=absolute, r=root: floats(parts(source(a, "", x), "sqrt" if r else "")[0]),
            )
            yield on(
                "FREXPM.log",
                mantissa | 0x1A20 | absolute << 6 | root << 7 | plain,
                lambda a, b, c, d, x=absolute, n=root: floats(parts(source(a, "", x, n), "log")[0]),
            )
            yield on(
                "FREXPE",
                exponent | 0x1C20 | absolute << 6 | root << 8 | plain,
                lambda a, b, c, d, n=absolute, r=root: words(
                    (-1 if n else 1) * parts(f32(a), "sqrt" if r else "")[1]
                ),
            )
        yield on("FREXPE.log", exponent | 0x1E20 | plain, lambda a, b, c, d: words(parts(f32(a), "log")[1]))
    for negative, absolute in itertools.product((0, 1), (0, 1)):
        modifiers = negative << 3 | absolute << 4 | FMA1
        yield on_add(
            "FRCP",
            0x67000 | modifiers,
            lambda a, b, c, d, n=negative, x=absolute: floats(
                1 / parts(source(a, "", x, n), "")[0].astype(np.float64)
            ),
        )
        yield on_add(
            "FRSQ",
            0x67100 | modifiers,
            lambda a, b, c, d, n=negative, x=absolute: floats(
                np.where(
                    source(a, "", x, n) == 0,
                    1 / source(a, "", x, n),
                    1 / np.sqrt(parts(source(a, "", x, n), "sqrt")[0].astype(np.float64)),
                )
            ),
        )
        yield on_add(
            "FLOG.red",
            0x67300 | modifiers,
            lambda a, b, c, d, n=negative, x=absolute: floats(reduction(source(a, "", x, n))),
        )
        for natural in (0, 1):
            yield on_add(
                "FLOG",
                0x67B00 | natural << 5 | modifiers,
                lambda a, b, c, d, m=(negative, absolute, natural): logarithm(source(a, "", m[1], m[0]), m[2]),
            )
    for base2, low in itertools.product((0, 1), (0, 1)):
        yield on_add(
            "FLOG.part",
            0x67AE0 | base2 << 3 | low << 4 | FMA1,
            lambda a, b, c, d, m=(base2, low): logarithm_part(f32(a), *m),
        )
    yield on_add("FEXP", 0x67AC0 | FMA1, lambda a, b, c, d: floats(np.exp2((a & np.uint32(15)) / 16)))
    yield on_add("FPOW_SC_APPLY", 0x75080 | FMA2, lambda a, b, c, d: a)
    yield on_add("FPOW_SC_DET", 0x67640 | FMA2, lambda a, b, c, d: np.zeros_like(a))


def logarithm(x: NDArray[Any], natural: int) -> Words:
    value = -(np.log if natural else np.log2)(reduction(x))
    value = np.where(
        x == 0, -np.inf, np.where((x < 0) | np.isnan(x), np.nan, np.where(np.isposinf(x), np.inf, value))
    )
    return floats(value)


def logarithm_part(x: NDArray[Any], base2: int, low: int) -> Words:
    value = -(np.log2 if base2 else np.log)(reduction(x))
    high = f32(floats(value) & np.uint32(0xFFFFF000))
    return floats(value - high.astype(np.float64)) if low else floats(high)


def conversion_and_table_rows() -> Iterator[Row]:
    yield from conversion_rows()
    yield from table_rows()
