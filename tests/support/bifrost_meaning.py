# SPDX-License-Identifier: BSD-2-Clause
"""What Bifrost operations do, in NumPy: encodings with their results for words a, b, c, d.

Written from the meaning of each operation as Mesa 22.3.6 (src/panfrost/bifrost/ISA.xml), its older disassembler
and experiments with recorded programs have it, not from the interpreter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.bifrost_asm import ADD_NOP, FMA_NOP, sources

Words = NDArray[np.uint32]
Result = Callable[..., Any]  # of a, b, c, d; further arguments have defaults
ONE, TRUE, ALL = 1, 0x3F800000, 0xFFFFFFFF  # what true is, by code
NAN = 0x7FC00000
FMA4, FMA3, FMA2, FMA1 = sources(0, 1, 2, 7), sources(0, 1, 2), sources(0, 1), sources(0)


@dataclass(frozen=True)
class Row:
    """An encoding. `fma`, `add`: results of the two operations; None: it has none."""

    name: str
    fma_word: int
    add_word: int
    fma: Result | None
    add: Result | None


def on_fma(name: str, word: int, result: Result) -> Row:
    return Row(f"*{name} {word:06x}", word, ADD_NOP, result, None)


def on_add(name: str, word: int, result: Result) -> Row:
    return Row(f"+{name} {word:05x}", FMA_NOP, word, None, result)


def pair(name: str, fma_word: int, add_word: int, fma: Result, add: Result) -> Row:
    return Row(f"{name} {fma_word:06x} {add_word:05x}", fma_word, add_word, fma, add)


# ---- words as other things ----


def f32(x: Words) -> NDArray[np.float32]:
    return x.view(np.float32)


def s32(x: Words) -> NDArray[np.int32]:
    return x.view(np.int32)


def words(x: NDArray[np.generic] | NDArray[np.bool_]) -> Words:
    """Integers modulo 2^32."""
    return np.asarray(x).astype(np.int64 if x.dtype != np.uint64 else np.uint64).astype(np.uint32)


def floats(x: NDArray[np.floating]) -> Words:
    """Floats, every NaN the same."""
    narrow = np.asarray(x, np.float32)
    return np.where(np.isnan(narrow), np.uint32(NAN), narrow.view(np.uint32))


def half(x: Words, high: int) -> Words:
    return x >> np.uint32(16 * high) & np.uint32(0xFFFF)


def byte(x: Words, number: int) -> Words:
    return x >> np.uint32(8 * number) & np.uint32(0xFF)


def source(x: Words, widen: str = "", absolute: int = 0, negative: int = 0) -> NDArray[np.float32]:
    """A float with its modifiers; `widen`: "h0", "h1"."""
    value = half(x, int(widen[1])).astype(np.uint16).view(np.float16).astype(np.float32) if widen else f32(x)
    value = np.abs(value) if absolute else value
    return -value if negative else value


def clamped(x: NDArray[np.float32], code: int) -> NDArray[np.float32]:
    """NaN becomes the lower limit."""
    low, high = ((-np.inf, np.inf), (0, np.inf), (-1, 1), (0, 1))[code]
    if code == 0:
        return x
    lower = np.where(x > low, x, np.float32(low))
    return np.where(lower < high, lower, np.float32(high))


def rounded(
    exact: Fraction,
    mode: int,
    *,
    digits: int = 24,
    smallest: int = -126,
    most: float = float(np.finfo(np.float32).max),
) -> float:
    """The float32, or another binary float, of a number: nearest even, up, down, to zero.

    Args:
        digits, smallest, most: of the mantissa; the exponent of the smallest normal number; the largest number.
    """
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), smallest)
    while Fraction(2) ** exponent > size and exponent > smallest:
        exponent -= 1
    unit = Fraction(2) ** (exponent - (digits - 1))
    count, rest = divmod(size, unit)
    negative = exact < 0
    if mode == 0:
        up = rest * 2 > unit or (rest * 2 == unit and count % 2 == 1)
    else:
        up = rest > 0 and mode == (2 if negative else 1)
    value = (count + up) * unit
    if value > Fraction(most):
        past = mode == 0 or mode == (2 if negative else 1)
        value_f = float("inf") if past else most
    else:
        value_f = float(value)
    return -value_f if negative else value_f


def exactly(
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    c: NDArray[np.float32],
    mode: int = 0,
    scale: Words | None = None,
    zero: bool = False,
) -> Words:
    """(a * b + c) * 2^scale, rounded once; `zero`: 0 * infinity is 0."""
    out = np.empty(len(a), np.float32)
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if zero and {0.0, float("inf")} == {abs(x), abs(y)}:
            x, y = 0.0, 0.0
        if np.isfinite([x, y, z]).all():
            power = 0 if scale is None else max(-700, min(700, int(np.int32(scale[i]))))
            exact = (Fraction(x) * Fraction(y) + Fraction(z)) * Fraction(2) ** power
            out[i] = rounded(exact, mode)
            if exact == 0:
                out[i] = np.float64(x) * np.float64(y) + np.float64(z)  # the sign of zero
        else:
            out[i] = np.float64(x) * np.float64(y) + np.float64(z)
    return floats(out)


def truth(condition: NDArray[np.bool_], value: int) -> Words:
    return np.where(condition, np.uint32(value), np.uint32(0))


COMPARE: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "eq": np.equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
}
FLOAT_CONDITIONS = ("eq", "gt", "ge", "ne", "lt", "le")
WIDEN_FMA = (("", ""), ("", "h0"), ("", "h1"), ("h0", "h0"), ("h0", "h1"), ("h1", "h1"), ("h0", ""), ("h1", ""))
WIDEN_ADD = (("", ""), ("", "h0"), ("", "h1"), ("h0", "h0"))


# ---- floats ----


def largest(x: NDArray[np.float32], y: NDArray[np.float32], sem: int, smallest: bool) -> Words:
    """FMAX, FMIN: NaN loses, wins; the second, the first source is the result with a NaN."""
    first = x < y if smallest else x > y
    second = y < x if smallest else y > x
    nans = np.isnan(x), np.isnan(y)
    chosen = (
        np.where(first | nans[1], x, y),
        np.where(nans[0], x, np.where(first, x, y)),
        np.where(first, x, y),
        np.where(second, y, x),
    )[sem]
    return floats(chosen)


def two(word_abs: tuple[int, int], word_neg: tuple[int, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Modifiers abs0, abs1, neg0, neg1 at the given bits."""
    places = (*word_abs, *word_neg)
    for values in itertools.product((0, 1), repeat=4):
        yield sum(value << place for value, place in zip(values, places, strict=True)), values


def float_rows() -> Iterator[Row]:
    for round_, clamp in itertools.product(range(4), range(4)):
        yield on_fma(
            "FMA",
            FMA3 | round_ << 13 | clamp << 15,
            lambda a, b, c, d, r=round_, k=clamp: floats(clamped(f32(exactly(f32(a), f32(b), f32(c), r)), k)),
        )
        yield on_fma(
            "FADD",
            0x2C0000 | FMA2 | round_ << 13 | clamp << 15,
            lambda a, b, c, d, r=round_, k=clamp: floats(
                clamped(f32(exactly(f32(a), np.ones(len(a), np.float32), f32(b), r)), k)
            ),
        )
        yield on_add(
            "FADD",
            0x20000 | FMA2 | round_ << 13 | clamp << 11,
            lambda a, b, c, d, r=round_, k=clamp: floats(
                clamped(f32(exactly(f32(a), np.ones(len(a), np.float32), f32(b), r)), k)
            ),
        )
    for abs0, negp, neg2, abs1, abs2 in itertools.product((0, 1), repeat=5):
        word = FMA3 | abs0 << 12 | negp << 17 | neg2 << 18 | abs1 << 19 | abs2 << 20
        yield on_fma(
            "FMA",
            word,
            lambda a, b, c, d, m=(abs0, negp, neg2, abs1, abs2): exactly(
                source(a, "", m[0], m[1]), source(b, "", m[3]), source(c, "", m[4], m[2])
            ),
        )
    for code, (w0, w1) in enumerate(WIDEN_FMA):
        yield on_fma(
            "FMA",
            FMA3 | code << 9,
            lambda a, b, c, d, w=(w0, w1): exactly(source(a, w[0]), source(b, w[1]), f32(c)),
        )
        yield on_fma(
            "FADD",
            0x2C0000 | FMA2 | code << 9,
            lambda a, b, c, d, w=(w0, w1): floats(source(a, w[0]) + source(b, w[1])),
        )
        yield on_fma(
            "FMAX",
            0x200000 | FMA2 | code << 9,
            lambda a, b, c, d, w=(w0, w1): largest(source(a, w[0]), source(b, w[1]), 0, False),
        )
    for code, (w0, w1) in enumerate(WIDEN_ADD):
        yield on_add(
            "FADD",
            0x20000 | FMA2 | code << 9,
            lambda a, b, c, d, w=(w0, w1): floats(source(a, w[0]) + source(b, w[1])),
        )
    for sem, clamp, small in itertools.product(range(4), range(4), (0, 1)):
        result: Result = lambda a, b, c, d, s=sem, k=clamp, l=small: floats(  # noqa: E731, E741
            clamped(f32(largest(f32(a), f32(b), s, bool(l))), k)
        )
        yield on_fma("FMAX/FMIN", 0x200000 | small << 17 | FMA2 | sem << 13 | clamp << 15, result)
        yield on_add("FMAX/FMIN", small << 16 | FMA2 | sem << 13 | clamp << 11, result)
    for on, abs0, fadd, extreme, name, small in (
        (on_fma, 12, 0x2C0000, 0x200000, "FMAX", False),
        (on_add, 15, 0x20000, 0x10000, "FMIN", True),
    ):
        for bits, m in two((abs0, 6), (7, 8)):
            yield on(
                "FADD",
                fadd | FMA2 | bits,
                lambda a, b, c, d, m=m: floats(source(a, "", m[0], m[2]) + source(b, "", m[1], m[3])),
            )
            yield on(
                name,
                extreme | FMA2 | bits,
                lambda a, b, c, d, m=m, k=small: largest(
                    source(a, "", m[0], m[2]), source(b, "", m[1], m[3]), 0, k
                ),
            )
    for (k, condition), (code, value) in itertools.product(
        enumerate(FLOAT_CONDITIONS), enumerate((ONE, TRUE, ALL))
    ):
        result = lambda a, b, c, d, n=condition, v=value: truth(COMPARE[n](f32(a), f32(b)), v)  # noqa: E731
        yield on_fma("FCMP", 0x240000 | FMA2 | k << 13 | code << 16, result)
        yield on_add("FCMP", 0x30000 | FMA2 | k << 6 | code << 14, result)
    for abs0, abs1, neg0 in itertools.product((0, 1), repeat=3):
        yield on_add(
            "FCMP",
            0x30000 | FMA2 | 1 << 6 | abs0 << 11 | abs1 << 12 | neg0 << 13,
            lambda a, b, c, d, m=(abs0, abs1, neg0): truth(source(a, "", m[0], m[2]) > source(b, "", m[1]), 1),
        )


def scale_rows() -> Iterator[Row]:
    for special in (0, 1, 2, 3, 4, 5, 7):
        clamp, zero, mode = special if special < 4 else 0, special in (4, 5, 7), 3 if special == 5 else 0
        for abs0, negp, neg2 in itertools.product((0, 1), repeat=3):
            yield on_fma(
                "FMA_RSCALE",
                0x280000 | FMA4 | special << 12 | abs0 << 15 | negp << 16 | neg2 << 17,
                lambda a, b, c, d, k=clamp, z=zero, r=mode, m=(abs0, negp, neg2): floats(
                    clamped(f32(exactly(source(a, "", m[0], m[1]), f32(b), source(c, "", 0, m[2]), r, d, z)), k)
                ),
            )
        for abs0, abs1, neg0, neg1 in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)):
            yield on_add(
                "FADD_RSCALE",
                0x88000 | FMA3 | special << 9 | abs1 << 12 | neg0 << 13 | neg1 << 14 | abs0 << 16,
                lambda a, b, c, d, k=clamp, r=mode, m=(abs0, abs1, neg0, neg1): floats(
                    clamped(
                        f32(
                            exactly(
                                source(a, "", m[0], m[2]),
                                np.ones(len(a), np.float32),
                                source(b, "", m[1], m[3]),
                                r,
                                c,
                            )
                        ),
                        k,
                    )
                ),
            )
