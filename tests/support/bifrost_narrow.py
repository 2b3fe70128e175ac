# SPDX-License-Identifier: BSD-2-Clause
"""What Bifrost operations on integers of 16 and 8 bits do, two and four in a word.

Encodings: Mesa 25.0.7 src/panfrost/compiler/bifrost/ISA.xml.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.bifrost_integers import SWIZZLES, per_half, shifted
from tests.support.bifrost_meaning import (
    ALL,
    COMPARE,
    FMA1,
    FMA2,
    FMA3,
    FMA4,
    ONE,
    Row,
    Words,
    byte,
    half,
    on_add,
    on_fma,
    s32,
    source,
    words,
)

IN_PLACE = {16: (0, 1), 8: (0, 1, 2, 3)}
Elements = Callable[..., Any]


def elements(x: Words, bits: int, places: Sequence[int], signed: bool = False) -> list[NDArray[np.int64]]:
    """The integers in a word that `places` names."""
    found = []
    for place in places:
        part = x >> np.uint32(bits * place) & np.uint32((1 << bits) - 1)
        kind = {16: (np.uint16, np.int16), 8: (np.uint8, np.int8)}[bits][signed]
        unsigned = part.astype(np.uint16 if bits == 16 else np.uint8)
        found.append(unsigned.view(kind).astype(np.int64))
    return found


def packed(found: Sequence[NDArray[Any]], bits: int) -> Words:
    out = np.zeros(len(found[0]), np.uint32)
    for number, part in enumerate(found):
        out |= (words(part) & np.uint32((1 << bits) - 1)) << np.uint32(bits * number)
    return out


def each(bits: int, f: Elements, *operands: tuple[Words, Sequence[int]], signed: bool = False) -> Words:
    taken = [elements(x, bits, places, signed) for x, places in operands]
    return packed([f(*parts) for parts in zip(*taken, strict=True)], bits)


def sum_rows() -> Iterator[Row]:
    kinds = ((0, False, False), (0x100, True, True), (0x180, True, False))  # bits, saturates, signed
    for (more, saturates, signed), minus in itertools.product(kinds, (0, 1)):
        for bits, plain, one in ((16, 0xBC800, 0xBEC40), (8, 0xBC400, 0xBE040)):
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

            def add(x: Any, y: Any, m: tuple[int, bool, int, int] = (minus, saturates, low, high)) -> Any:
                total = x - y if m[0] else x + y
                return np.clip(total, m[2], m[3]) if m[1] else total

            forms: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
            count = len(IN_PLACE[bits])
            forms += [
                (one | n << 9, IN_PLACE[bits], (n,) * count)
                for n in range(count)  # one element of source 1 for all
            ]
            if bits == 16:
                forms += [
                    (plain | q << 9 | p << 10, (p, 1 - p), (q, 1 - q))
                    for p, q in itertools.product((0, 1), (0, 1))
                ]
            else:
                forms += [(plain, IN_PLACE[8], IN_PLACE[8])]
            for word, first, second in forms:
                yield on_add(
                    f"IADD.v{32 // bits}",
                    word | more | minus << 12 | FMA2,
                    lambda a, b, c, d, f=add, n=bits, p=first, q=second, s=signed: each(
                        n, f, (a, p), (b, q), signed=s
                    ),
                )
    for up, signed in itertools.product((0, 1), (True, False)):
        more = up << 12 | (not signed) << 7 | FMA2

        def mean(x: Any, y: Any, u: int = up) -> Any:
            return (x + y + u) >> 1

        yield on_add(
            "HADD",
            0xBC640 | more,
            lambda a, b, c, d, f=mean, s=signed: words(
                f(*((s32(x) if s else x).astype(np.int64) for x in (a, b)))
            ),
        )
        yield on_add(
            "HADD.v4",
            0xBC440 | more,
            lambda a, b, c, d, f=mean, s=signed: each(8, f, (a, IN_PLACE[8]), (b, IN_PLACE[8]), signed=s),
        )
        for p, q in itertools.product((0, 1), (0, 1)):
            yield on_add(
                "HADD.v2",
                0xBC840 | p << 10 | q << 9 | more,
                lambda a, b, c, d, f=mean, s=signed, p=p, q=q: each(
                    16, f, (a, (p, 1 - p)), (b, (q, 1 - q)), signed=s
                ),
            )
    for minus, unsigned in itertools.product((0, 1), (0, 1)):
        for number in range(4):
            yield on_add(
                "IADD.b",
                0xBE000 | minus << 12 | unsigned << 7 | number << 9 | FMA2,
                lambda a, b, c, d, m=minus, u=unsigned, n=number: words(
                    a.astype(np.int64) + (-1 if m else 1) * elements(b, 8, [n], not u)[0]
                ),
            )
        for number in range(2):
            yield on_add(
                "IADD.h",
                0xBEC00 | minus << 12 | unsigned << 7 | number << 9 | FMA2,
                lambda a, b, c, d, m=minus, u=unsigned, n=number: words(
                    a.astype(np.int64) + (-1 if m else 1) * elements(b, 16, [n], not u)[0]
                ),
            )


def product_rows() -> Iterator[Row]:
    zero = 3 << 6  # source 2
    for p, q in itertools.product(range(4), range(4)):
        yield on_fma(
            "IMUL.v2",
            0x7240C0 | zero | p << 9 | q << 11 | FMA2,
            lambda a, b, c, d, p=p, q=q: each(16, np.multiply, (a, SWIZZLES[p]), (b, SWIZZLES[q])),
        )
    yield on_fma(
        "IMUL.v4", 0x73E0C0 | FMA2, lambda a, b, c, d: each(8, np.multiply, (a, IN_PLACE[8]), (b, IN_PLACE[8]))
    )
    for n, signed in itertools.product(range(4), (False, True)):
        if not signed:
            yield on_fma(
                "IMUL.v4",
                0x7380C0 | n << 9 | FMA2,
                lambda a, b, c, d, n=n: each(8, np.multiply, (a, IN_PLACE[8]), (b, (n,) * 4)),
            )
        yield on_fma(
            "IMUL.b",
            0x73B0C0 | n << 9 | signed << 11 | FMA2,
            lambda a, b, c, d, n=n, s=signed: words(a.astype(np.int64) * elements(b, 8, [n], s)[0]),
        )
        if n < 2:
            yield on_fma(
                "IMUL.h",
                0x73C8C0 | n << 9 | signed << 10 | FMA2,
                lambda a, b, c, d, n=n, s=signed: words(a.astype(np.int64) * elements(b, 16, [n], s)[0]),
            )


def single_rows() -> Iterator[Row]:
    for p in range(4):
        yield on_add(
            "IABS.v2",
            0x3DE88 | p << 4 | FMA1,
            lambda a, b, c, d, p=p: each(16, np.abs, (a, SWIZZLES[p]), signed=True),
        )
        yield on_fma(
            "CLZ.v2",
            0x701EC0 | p << 4 | FMA1,
            lambda a, b, c, d, p=p: each(16, lambda x: 16 - np.frexp(x.astype(float))[1], (a, SWIZZLES[p])),
        )
        if p != 2:
            yield on_add(
                "SWZ.v2", 0x3D948 | p << 4 | FMA1, lambda a, b, c, d, p=p: each(16, lambda x: x, (a, SWIZZLES[p]))
            )
    yield on_add("IABS.v4", 0x3DEB0 | FMA1, lambda a, b, c, d: each(8, np.abs, (a, IN_PLACE[8]), signed=True))
    yield on_fma(
        "CLZ.v4",
        0x701F90 | FMA1,
        lambda a, b, c, d: each(8, lambda x: 8 - np.frexp(x.astype(float))[1], (a, IN_PLACE[8])),
    )
    orders = ((0,) * 4, (1,) * 4, (2,) * 4, (3,) * 4, (0, 0, 1, 1), (2, 2, 3, 3), (1, 0, 3, 2), (3, 2, 1, 0))
    for k, order in enumerate(orders):
        yield on_add(
            "SWZ.v4",
            0x3DF40 | k << 3 | FMA1,
            lambda a, b, c, d, p=order: packed([byte(a, n) for n in p], 8),
        )


def choice_rows() -> Iterator[Row]:
    def by_mode(mode: int, bits: int, x: Any, y: Any, z: Any) -> Any:
        if mode == 0:
            return np.where(z >> bits - 1 & 1, y, x)
        if mode == 1:
            return np.where(z == 0, x, y)
        if mode == 2:
            return np.where(source(z.astype(np.uint32), "h0") == 0, x, y)
        return (x & z) | (y & ~z)

    for mode, p, q, r in itertools.product(range(4), *[(0, 1)] * 3):
        yield on_add(
            "MUX.v2",
            0x70000 | mode << 9 | r << 11 | q << 12 | p << 13 | FMA3,
            lambda a, b, c, d, m=mode, s=(p, q, r): each(
                16, lambda *v: by_mode(m, 16, *v), *((x, (k, 1 - k)) for x, k in zip((a, b, c), s, strict=True))
            ),
        )
    for mode in (0, 1):
        yield on_add(
            "MUX.v4",
            0x74800 | mode << 9 | FMA3,
            lambda a, b, c, d, m=mode: each(
                8, lambda *v: by_mode(m, 8, *v), *((x, IN_PLACE[8]) for x in (a, b, c))
            ),
        )
    for word, name, signed in (
        (0x6E3000, "eq", False), (0x6E4000, "gt", True), (0x6E5000, "ge", True),
        (0x6E6000, "gt", False), (0x6E7000, "ge", False),
    ):  # fmt: skip
        yield on_fma(
            "CSEL.v2",
            word | FMA4,
            lambda a, b, c, d, n=name, s=signed: packed(
                [
                    np.where(COMPARE[n](x, y), half(c, e), half(d, e))
                    for e, (x, y) in enumerate(
                        zip(elements(a, 16, (0, 1), s), elements(b, 16, (0, 1), s), strict=True)
                    )
                ],
                16,
            ),
        )
    for p, q, code in itertools.product(range(4), range(4), (0, 1)):
        lanes = p << 6 | q << 8 | code << 10 | FMA2
        for word, name, signed in (
            (0x78000, "gt", True), (0x79000, "ge", True), (0x7A000, "eq", False), (0x7A800, "ne", False),
        ):  # fmt: skip
            yield on_add(
                "ICMP.v2",
                word | lanes,
                lambda a, b, c, d, n=name, s=signed, v=ALL if code else ONE, p=p, q=q: per_half(
                    a, b, n, s, v, p, q
                ),
            )


def shift_forms() -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Bits that say what is shifted, the size of elements, and the bytes of source 2 that shift them."""
    for n in range(4):
        yield 1 << 11 | n << 9, 16, (n, n)
        yield n << 9, 8, (n,) * 4
    yield from ((3 << 11 | k << 9, 16, places) for k, places in ((1, (0, 1)), (2, (2, 3)), (3, (0, 2))))
    yield 3 << 11, 8, (0, 1, 2, 3)


def shift_rows() -> Iterator[Row]:
    def moved(x: Words, by: Words, kind: str, bits: int, places: tuple[int, ...]) -> Words:
        parts = elements(x, bits, IN_PLACE[bits], kind == "a")
        amounts = [byte(by, n) & np.uint32(bits - 1) for n in places]
        return packed(
            [shifted(words(part), amount, kind) for part, amount in zip(parts, amounts, strict=True)], bits
        )

    for form, bits, places in shift_forms():
        for left, bit14, bit15 in itertools.product((0, 1), repeat=3):
            word = form | left << 16 | bit14 << 14 | bit15 << 15 | FMA3
            shape = ("l" if left else "r", bits, places)
            yield on_fma(
                f"SHIFT_AND.v{32 // bits}",
                0x300000 | word,
                lambda a, b, c, d, s=shape, x=bit14, y=bit15: (
                    (moved(a, c, *s) & (~b if x else b)) ^ np.uint32(0 if y else ALL)
                ),
            )
            yield on_fma(
                f"SHIFT_OR.v{32 // bits}",
                0x302000 | word,
                lambda a, b, c, d, s=shape, x=bit14, y=bit15: (
                    (moved(a, c, *s) | (b if x else ~b)) ^ np.uint32(ALL if y else 0)
                ),
            )
            if not bit15:
                yield on_fma(
                    f"SHIFT_XOR.v{32 // bits}",
                    0x320000 | form | left << 14 | bit14 << 13 | FMA3,
                    lambda a, b, c, d, s=shape, x=bit14: moved(a, c, *s) ^ b ^ np.uint32(ALL if x else 0),
                )
        yield on_fma(
            f"ARSHIFT.v{32 // bits}",
            0x334018 | form | 2 << 6,
            lambda a, b, c, d, s=("a", bits, places): moved(a, c, *s),
        )
    for n, inverts in itertools.product(range(4), (0, 1)):
        yield on_fma(
            "RSHIFT_XOR",
            0x321000 | FMA3 | n << 9 | inverts << 13,
            lambda a, b, c, d, n=n, x=inverts: shifted(a, byte(c, n), "r") ^ b ^ np.uint32(ALL if x else 0),
        )
        if n and not inverts:
            yield on_fma(
                "ARSHIFT", 0x335018 | n << 9 | 2 << 6, lambda a, b, c, d, n=n: shifted(a, byte(c, n), "a")
            )


def narrow_rows() -> Iterator[Row]:
    for rows in (sum_rows, product_rows, single_rows, choice_rows, shift_rows):
        yield from rows()
