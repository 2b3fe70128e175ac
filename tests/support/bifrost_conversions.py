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
    byte,
    exactly,
    f32,
    floats,
    half,
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


def to_half(x: NDArray[Any], mode: int) -> NDArray[Any]:
    """Float16 numbers as words. NumPy's are the nearest; where those lie on the wrong side, their neighbours."""
    near = x.astype(np.float16)
    beyond = near.astype(np.float64) > x, near.astype(np.float64) < x
    toward = np.where(x < 0, np.float16(np.inf), np.float16(-np.inf))
    if mode == 1:
        near = np.where(beyond[1], np.nextafter(near, np.float16(np.inf)), near)
    if mode == 2:
        near = np.where(beyond[0], np.nextafter(near, np.float16(-np.inf)), near)
    if mode == 3:
        near = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, toward), near)
    near = np.copysign(near, x)  # of a zero
    return np.where(np.isnan(x), np.uint32(0x7E00), near.astype(np.float16).view(np.uint16).astype(np.uint32))


def half_rows() -> Iterator[Row]:
    for on, word in ((on_fma, 0x6E8000), (on_add, 0x76000)):
        for mode, absolute, negative in itertools.product(range(4), (0, 1), (0, 1)):
            yield on(
                "V2F32_TO_V2F16",
                word | absolute << 6 | negative << 7 | mode << 10 | FMA2,
                lambda a, b, c, d, m=mode, x=absolute, y=negative: (
                    to_half(source(a, "", x, y), m) | to_half(source(b, "", x, y), m) << np.uint32(16)
                ),
            )
    for high in (0, 1):
        for on, word in ((on_fma, 0x700D10), (on_add, 0x3CD10)):
            yield on("F16_TO_F32", word | high << 3 | FMA1, lambda a, b, c, d, h=high: floats(source(a, f"h{h}")))
        for signed in (True, False):
            yield on_add(
                "INT16_TO_F32",
                0x3CCE0 | 8 * (not signed) | high << 4 | FMA1,
                lambda a, b, c, d, h=high, s=signed: floats(
                    half(a, h).astype(np.uint16).view(np.int16 if s else np.uint16).astype(np.float32)
                ),
            )
    for number, signed in itertools.product(range(4), (True, False)):
        yield on_add(
            "INT8_TO_F32",
            0x3CB80 | 8 * (not signed) | number << 4 | FMA1,
            lambda a, b, c, d, n=number, s=signed: floats(
                byte(a, n).astype(np.uint8).view(np.int8 if s else np.uint8).astype(np.float32)
            ),
        )
    for mode in range(4):
        yield on_add(
            "LDEXP",
            0x74C00 | mode << 6 | FMA2,
            lambda a, b, c, d, m=mode: exactly(f32(a), np.ones(len(a), np.float32), negative_zero(a), m, b),
        )


def negative_zero(x: Words) -> NDArray[np.float32]:
    """What can be added to anything without a change, of x's shape."""
    return np.full(len(x), -0.0, np.float32)


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


def function_rows() -> Iterator[Row]:
    """Whole functions, and sines."""
    for negative, absolute in itertools.product((0, 1), (0, 1)):
        modifiers = negative << 3 | absolute << 4 | FMA1
        yield on_add(
            "FRCP.f32",
            0x66000 | modifiers,
            lambda a, b, c, d, n=negative, x=absolute: floats(1 / source(a, "", x, n).astype(np.float64)),
        )
        yield on_add(
            "FRSQ.f32",
            0x66100 | modifiers,
            lambda a, b, c, d, n=negative, x=absolute: floats(1 / np.sqrt(source(a, "", x, n).astype(np.float64))),
        )
    for abs0, neg0, abs1, neg1 in itertools.product((0, 1), repeat=4):
        yield on_fma(
            "FADD_LSCALE",
            0x70F400 | abs0 << 6 | neg0 << 7 | abs1 << 8 | neg1 << 9 | FMA2,
            lambda a, b, c, d, m=(abs0, neg0, abs1, neg1): floats(
                source(a, "", m[0], m[1]) + f32(floats(parts(source(b, "", m[2], m[3]), "log")[0]))
            ),
        )
    yield on_add("FLOGD", 0x66340 | FMA1, lambda a, b, c, d: slope(f32(a)))
    yield on_add("FEXP.f32", 0x66AC0 | FMA2, lambda a, b, c, d: power_of_two(s32(a), f32(b)))
    for word, ahead in ((0x67A80, 0), (0x67A88, 16)):
        yield on_add("FSINCOS", word | FMA1, lambda a, b, c, d, s=ahead: sine(a + np.uint32(s)))


def slope(x: NDArray[Any]) -> Words:
    """log2(m) / (m - 1) of a logarithm's m; its limit at 1 is log2(e)."""
    mantissa = parts(x, "log")[0]
    value = np.where(mantissa == 1, np.log2(np.e), np.log2(mantissa) / (mantissa - 1))
    return floats(np.where((x == 0) | np.isposinf(x), np.inf, np.where(x < 0, np.nan, value)))


def power_of_two(x: NDArray[np.int32], scaled: NDArray[Any]) -> Words:
    """2^(x / 2^24), except where x was made of a number that is beyond it."""
    value = np.exp2(x.astype(np.float64) / 2**24)
    limits = np.where(scaled >= 2**31, np.inf, np.where(scaled <= -(2**31), 0.0, value))
    return floats(np.where(np.isnan(scaled), np.nan, limits))


def sine(steps: Words) -> Words:
    """Of steps of a 64th of a turn, exact at each half turn."""
    step = (steps % np.uint32(64)).astype(np.float64)
    return floats(np.where(step % 32 == 0, 0.0, np.sin(step / 64 * 2 * np.pi)))


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
    yield from half_rows()
    yield from table_rows()
    yield from function_rows()
