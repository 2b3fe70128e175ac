# SPDX-License-Identifier: BSD-2-Clause
"""What Bifrost operations on integers do, as bifrost_meaning.py has it for floats."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.bifrost_asm import T, sources
from tests.support.bifrost_meaning import (
    ALL,
    COMPARE,
    FMA1,
    FMA2,
    FMA3,
    FMA4,
    Result,
    Row,
    Words,
    byte,
    f32,
    half,
    on_add,
    on_fma,
    pair,
    s32,
    truth,
    words,
)

SHIFTS = ("l", "r", "a")
SWIZZLES = ((0, 0), (1, 0), (0, 1), (1, 1))  # halves of elements 0 and 1


def shifted(x: Words, by: Words, kind: str) -> Words:
    amount = by & np.uint32(31)
    if kind == "a":
        return (s32(x) >> amount.view(np.int32)).view(np.uint32)
    return x << amount if kind == "l" else x >> amount


def combined(x: Words, y: Words, kind: int) -> Words:
    """The sum, x - y, y - x."""
    return (x + y, x - y, y - x)[kind]


def per_byte(a: Words, b: Words, name: str, signed: bool, value: int) -> Words:
    result = np.zeros_like(a)
    for i in range(4):
        x, y = byte(a, i).astype(np.uint8), byte(b, i).astype(np.uint8)
        if signed:
            x, y = x.view(np.int8), y.view(np.int8)
        result |= truth(COMPARE[name](x, y), value & 0xFF) << np.uint32(8 * i)
    return result


def per_half(a: Words, b: Words, name: str, signed: bool, value: int, first: int, second: int) -> Words:
    result = np.zeros_like(a)
    for i in range(2):
        x = half(a, SWIZZLES[first][i]).astype(np.uint16)
        y = half(b, SWIZZLES[second][i]).astype(np.uint16)
        if signed:
            x, y = x.view(np.int16), y.view(np.int16)
        result |= truth(COMPARE[name](x, y), value & 0xFFFF) << np.uint32(16 * i)
    return result


def wide(a: Words, b: Words) -> NDArray[Any]:
    return a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)


def bits_of(x: Words) -> NDArray[np.uint32]:
    """uint32 (n, 32) of 0 and 1, the lowest bit first."""
    return x[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)


def from_bits(bits: NDArray[np.uint32]) -> Words:
    """What `bits_of` took apart."""
    return words((bits << np.arange(32, dtype=np.uint32)).sum(axis=1))


def shift_rows() -> Iterator[Row]:
    for lane, left, bit14, bit15 in itertools.product(range(4), (0, 1), (0, 1), (0, 1)):
        kind = "l" if left else "r"
        word = left << 16 | lane << 9 | bit14 << 14 | bit15 << 15 | FMA3
        yield on_fma(
            "SHIFT_AND",
            0x301000 | word,
            lambda a, b, c, d, k=kind, n=lane, x=bit14, y=bit15: (
                (shifted(a, byte(c, n), k) & (~b if x else b)) ^ np.uint32(0 if y else ALL)
            ),
        )
        yield on_fma(
            "SHIFT_OR",
            0x303000 | word,
            lambda a, b, c, d, k=kind, n=lane, x=bit14, y=bit15: (
                (shifted(a, byte(c, n), k) | (b if x else ~b)) ^ np.uint32(ALL if y else 0)
            ),
        )
    for lane, inverts in itertools.product(range(4), (0, 1)):
        yield on_fma(
            "LSHIFT_XOR",
            0x325000 | FMA3 | lane << 9 | inverts << 13,
            lambda a, b, c, d, n=lane, x=inverts: shifted(a, byte(c, n), "l") ^ b ^ np.uint32(ALL if x else 0),
        )
    for k, (kind, op) in enumerate(itertools.product(SHIFTS, range(3))):
        result: Result = lambda a, b, c, d, k=kind, o=op: combined(shifted(a, c, k), b, o)  # noqa: E731
        yield on_fma("SHIFT_ADD", 0x329000 + 0x2000 * k | FMA3, result)
        yield on_add("SHIFT_ADD", 0xEA000 + 0x800 * k | FMA3, result)
    for left, plain, not0, not1 in itertools.product((0, 1), repeat=4):
        yield on_add(
            "SHIFT_NAND",
            0xE0000 | left << 14 | plain << 13 | not0 << 11 | not1 << 12 | FMA3,
            lambda a, b, c, d, m=(left, plain, not0, not1): (
                (
                    (shifted(a, c, "l" if m[0] else "r") ^ np.uint32(ALL if m[2] else 0))
                    & (b ^ np.uint32(ALL if m[3] else 0))
                )
                ^ np.uint32(0 if m[1] else ALL)
            ),
        )
    for word, kind in ((0xEEB00, "l"), (0xEEC00, "r"), (0xEED00, "a")):
        yield on_add("SHIFT", word | FMA2, lambda a, b, c, d, k=kind: shifted(a, b, k))
    yield on_add("OR", 0xEE8C0 | FMA2, lambda a, b, c, d: a | b)
    yield on_add("AND", 0xEE900 | FMA2, lambda a, b, c, d: a & b)
    yield on_add("XOR", 0xEEA80 | FMA2, lambda a, b, c, d: a ^ b)
    for right in (0, 1):

        def both(a: Words, b: Words, c: Words, r: int = right) -> NDArray[Any]:
            by = (c & np.uint32(63)).astype(np.uint64)
            return wide(a, b) >> by if r else wide(a, b) << by

        yield pair(
            "SHIFT_DOUBLE",
            0x33C000 | right << 12 | FMA3,
            0xEFE00 | FMA3,
            lambda a, b, c, d, f=both: words(f(a, b, c)),
            lambda a, b, c, d, f=both: words(f(a, b, c) >> np.uint64(32)),
        )


def compare_rows() -> Iterator[Row]:
    kinds = (("gt", True), ("ge", True), ("gt", False), ("ge", False), ("eq", False), ("ne", False))
    for (k, (name, signed)), code in itertools.product(enumerate(kinds), (0, 1)):
        value = ALL if code else 1
        in_words: Result = lambda a, b, c, d, n=name, s=signed, v=value: (  # noqa: E731
            truth(COMPARE[n](s32(a), s32(b)) if s else COMPARE[n](a, b), v)
        )
        in_bytes: Result = lambda a, b, c, d, n=name, s=signed, v=value: per_byte(a, b, n, s, v)  # noqa: E731
        yield on_fma("ICMP.v4", 0x2EF000 + 0x40 * k | code << 10 | FMA2, in_bytes)
        yield on_fma("ICMP", 0x2EF200 + 0x40 * k | code << 10 | FMA2, in_words)
        add = (0x000, 0x040, 0x080, 0x0C0, 0x100, 0x140)[k]
        yield on_add("ICMP.v4", 0x7B000 | add | code << 10 | FMA2, in_bytes)
        yield on_add("ICMP", 0x7B200 | add | code << 10 | FMA2, in_words)
        for first, second in itertools.product(range(4), range(4)):
            lanes = first << 6 | second << 8 | code << 10 | FMA2
            in_halves: Result = lambda a, b, c, d, n=name, s=signed, v=value, f=first, g=second: (  # noqa: E731
                per_half(a, b, n, s, v, f, g)
            )
            if k < 4:
                yield on_fma("ICMP.v2", 0x2EC000 | (k // 2) << 11 | (k % 2) << 12 | lanes, in_halves)
            else:
                yield on_fma("ICMP.v2", 0x2EE000 | (k == 5) << 11 | lanes, in_halves)
            if 2 <= k < 4:
                yield on_add("ICMP.v2", 0x78800 | (k == 3) << 12 | lanes, in_halves)
        yield pair(
            "ICMPI",
            0x2EF800 + 0x40 * k | FMA2,
            0x7BE00 | sources(1, 2, T),
            lambda a, b, c, d, n=name: truth(COMPARE[n](a, b), 1),
            lambda a, b, c, d, n=name, s=signed: truth(wide_compare(a, b, b, c, n, s), 1),
        )
    for word, name, signed in (
        (0x2E3000, "eq", False),
        (0x2E4000, "gt", True),
        (0x2E5000, "ge", True),
        (0x2E6000, "gt", False),
        (0x2E7000, "ge", False),
    ):
        yield on_fma(
            "CSEL",
            word | FMA4,
            lambda a, b, c, d, n=name, s=signed: np.where(
                COMPARE[n](s32(a), s32(b)) if s else COMPARE[n](a, b), c, d
            ),
        )


def wide_compare(low0: Words, low1: Words, high0: Words, high1: Words, name: str, signed: bool) -> NDArray[Any]:
    """Pairs of words as integers of 64 bits."""
    x, y = wide(low0, high0), wide(low1, high1)
    return COMPARE[name](x.view(np.int64), y.view(np.int64)) if signed else COMPARE[name](x, y)


def number_rows() -> Iterator[Row]:
    for on, word in ((on_fma, 0x701968), (on_add, 0x3D968)):
        yield on("MOV", word | FMA1, lambda a, b, c, d: a)
    for on, word in ((on_fma, 0x701EA0), (on_add, 0x3DEA0)):
        yield on("IABS", word | FMA1, lambda a, b, c, d: words(np.abs(s32(a).astype(np.int64))))
    yield on_fma("IADDC", 0x27FC00 | FMA3, lambda a, b, c, d: a + b + (c & np.uint32(1)))
    yield on_fma("ISUBB", 0x27FE00 | FMA3, lambda a, b, c, d: a - b - (c & np.uint32(1)))
    for word, sign in ((0xBC600, 1), (0xBD600, -1)):
        yield on_add("IADD", word | FMA2, lambda a, b, c, d, s=sign: a + b if s > 0 else a - b)
        yield on_add(
            "IADD.sat",
            word | 0x100 | FMA2,
            lambda a, b, c, d, s=sign: words(
                np.clip(s32(a).astype(np.int64) + s * s32(b).astype(np.int64), -(2**31), 2**31 - 1)
            ),
        )
        yield on_add(
            "IADD.u32.sat",
            word | 0x180 | FMA2,
            lambda a, b, c, d, s=sign: words(np.clip(a.astype(np.int64) + s * b.astype(np.int64), 0, 2**32 - 1)),
        )
    for high in (0, 1):
        for on, word in ((on_fma, 0x700CC0), (on_add, 0x3CCC0)):
            yield on(
                "S16_TO_S32",
                word | high << 4 | FMA1,
                lambda a, b, c, d, h=high: words(half(a, h).astype(np.uint16).view(np.int16)),
            )
        yield on_add("U16_TO_U32", 0x3CCC8 | high << 4 | FMA1, lambda a, b, c, d, h=high: half(a, h))
        yield on_fma("U16_TO_U32", 0x700CC8 | high << 4 | FMA1, lambda a, b, c, d, h=high: half(a, h))
        for other in (0, 1):
            result: Result = lambda a, b, c, d, h=high, o=other: half(a, h) | half(b, o) << np.uint32(16)  # noqa: E731
            yield on_fma("MKVEC.v2", 0x70F000 | high << 6 | other << 7 | FMA2, result)
            yield on_add("MKVEC.v2", 0x75300 | high << 6 | other << 7 | FMA2, result)
    for number in range(4):
        for on, word in ((on_fma, 0x700B40), (on_add, 0x3CB40)):
            yield on(
                "S8_TO_S32",
                word | number << 4 | FMA1,
                lambda a, b, c, d, n=number: words(byte(a, n).astype(np.uint8).view(np.int8)),
            )
        yield on_fma("U8_TO_U32", 0x700B48 | number << 4 | FMA1, lambda a, b, c, d, n=number: byte(a, n))
        yield on_add("U8_TO_U32", 0x3CB48 | number << 4 | FMA1, lambda a, b, c, d, n=number: byte(a, n))
    for parts in itertools.product((0, 2), repeat=4):
        yield on_fma(
            "MKVEC.v4",
            0x710000 | sum((p // 2) << 12 + i for i, p in enumerate(parts)) | FMA4,
            lambda a, b, c, d, p=parts: (
                byte(a, p[0])
                | byte(b, p[1]) << np.uint32(8)
                | byte(c, p[2]) << np.uint32(16)
                | byte(d, p[3]) << np.uint32(24)
            ),
        )
    for k in range(3):
        yield on_fma("IMAD", 0x73C000 | k << 9 | FMA3, lambda a, b, c, d, k=k: combined(a * b, c, k))
    for k, merge in (
        (2, np.add), (10, np.minimum), (11, np.maximum), (12, np.bitwise_and), (13, np.bitwise_or),
        (14, np.bitwise_xor),
    ):  # fmt: skip
        yield on_fma("ATOM_POST", 0x6EE400 | k << 6 | FMA2, lambda a, b, c, d, f=merge: f(a, b))
    for k, merge in ((8, np.minimum), (9, np.maximum)):
        yield on_fma("ATOM_POST", 0x6EE400 | k << 6 | FMA2, lambda a, b, c, d, f=merge: words(f(s32(a), s32(b))))
    yield on_fma("BITREV", 0x701FC0 | FMA1, lambda a, b, c, d: from_bits(bits_of(a)[:, ::-1]))
    yield on_fma("CLZ", 0x701FD0 | FMA1, lambda a, b, c, d: words(32 - np.frexp(a.astype(np.float64))[1]))
    yield on_fma("POPCOUNT", 0x73C6D8 | FMA1, lambda a, b, c, d: words(bits_of(a).sum(1)))
    for k, signed in itertools.product(range(3), (True, False)):
        yield on_fma(
            "IMED3",
            0x705C00 + 0x400 * k + 0x200 * (not signed) | FMA3,
            lambda a, b, c, d, k=k, s=signed: np.sort(np.stack([s32(x) if s else x for x in (a, b, c)]), 0)[
                (2, 0, 1)[k]
            ].view(np.uint32),
        )
    muxes: tuple[Result, ...] = (
        lambda a, b, c, d: np.where(s32(c) < 0, b, a),
        lambda a, b, c, d: np.where(c == 0, a, b),
        lambda a, b, c, d: np.where(f32(c) == 0, a, b),
        lambda a, b, c, d: (a & c) | (b & ~c),
    )
    for k, result in enumerate(muxes):
        yield on_fma("MUX", 0x707800 + 0x200 * k | FMA3, result)
        yield on_add("MUX", 0x74000 + 0x200 * k | FMA3, result)


def pointer_rows() -> Iterator[Row]:
    for shift in range(8):
        for signed, part in itertools.product((0, 1), range(3)):

            def total(a: Words, b: Words, c: Words, m: tuple[int, int, int] = (shift, signed, part)) -> Any:
                x = b if m[2] == 2 else half(b, m[2])
                y = (s32(x) if m[2] == 2 else x.astype(np.uint16).view(np.int16)) if m[1] else x
                return wide(a, c) + (y.astype(np.int64).view(np.uint64) << np.uint64(m[0]))

            yield pair(
                "SHADDX",
                0x70E000 | signed << 11 | part << 9 | shift << 6 | FMA2,
                0x3F8C0 | sources(2, 1),
                lambda a, b, c, d, f=total: words(f(a, b, c)),
                lambda a, b, c, d, f=total: words(f(a, b, c) >> np.uint64(32)),
            )

        def pointer(a: Words, b: Words, c: Words, s: int = shift) -> Any:
            return wide(a, c) + (wide(b, a) << np.uint64(s))

        yield pair(
            "SHADDX.i64",
            0x70E600 | shift << 6 | FMA2,
            0x3F8C0 | sources(2, 0),
            lambda a, b, c, d, f=pointer: words(f(a, b, c)),
            lambda a, b, c, d, f=pointer: words(f(a, b, c) >> np.uint64(32)),
        )


def integer_rows() -> Iterator[Row]:
    for rows in (shift_rows, compare_rows, number_rows, pointer_rows):
        yield from rows()
