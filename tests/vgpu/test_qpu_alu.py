# SPDX-License-Identifier: BSD-2-Clause
"""What QPU operations compute, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.qpu_bench import DATA, END, PROPAGATE_NAN, SINGLE_SEGMENT, U32, dispatch, float_bits
from tests.support.sampling import few

F32 = npt.NDArray[np.float32]
NAN, HALF_NAN = 0x7FC00000, 0x7E00

# rf20 and rf21 are the operands, rf30 the old value of the result: 7 in every lane. The flags come out as words of
# 0 and 1.
PROLOGUE = """
eidx r0; nop; ldunifrf.rf9
shl r0, r0, 2
nop; nop; ldunifrf.r1
add rf10, r0, rf9
add rf11, rf10, r1
nop; mov tmua, rf10
nop; mov tmua, rf11
nop; mov rf30, 7; ldtmu.rf20
nop; nop; ldtmu.rf21
"""
EPILOGUE = """
nop; mov.ifa rf31, 1
nop; mov.ifb rf32, 1
add rf11, rf11, r1; mov tmud, rf30
nop; mov tmua, rf11
add rf11, rf11, r1; mov tmud, rf31
nop; mov tmua, rf11
add rf11, rf11, r1; mov tmud, rf32
nop; mov tmua, rf11
"""

SPECIAL = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000]
SPECIAL += [
    0x7F800001,
    0x00000001,
    0x807FFFFF,
    0x00800000,
    0x4F000000,
    0xCF000000,
    0x4F800000,
    0x477FF000,
    0x33000000,
]
SPECIAL += [
    0x38800000,
    0x387FC000,
    0x7C007C00,
    0xFC017E00,
    0x00010400,
    0x3C00BC00,
    0x3F000000,
    0x40200000,
    0xFFFF0000,
]
words = st.one_of(
    st.sampled_from(SPECIAL),
    st.integers(0, 2**32 - 1),
    st.floats(-100, 100, width=32).map(lambda x: int(np.float32(x).view(np.uint32))),
)
vectors = st.lists(words, min_size=16, max_size=16).map(lambda v: np.array(v, np.uint32))
examples = few(8, 40)  # each is 16 lanes of numbers


def run(lines: str, a: U32, b: U32) -> tuple[U32, U32, U32]:
    """rf30 and the flags A and B after the lines."""
    outcome = dispatch(
        PROLOGUE + lines + EPILOGUE + END, [DATA, 64], np.concatenate([a, b]), flags=PROPAGATE_NAN | SINGLE_SEGMENT
    )
    assert outcome.error == ""
    assert outcome.fault is None
    result = outcome.words(DATA + 128, 48)
    return result[:16], result[16:32], result[32:]


def f(bits: U32) -> F32:
    return bits.view(np.float32)


def canonical(values: npt.NDArray[np.floating]) -> U32:
    bits = values.astype(np.float32).view(np.uint32).copy()
    bits[np.isnan(values)] = NAN
    return bits


def half_bits(values: npt.NDArray[np.floating]) -> U32:
    with np.errstate(all="ignore"):
        bits = values.astype(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
    bits[np.isnan(values)] = HALF_NAN
    return bits


def halves(bits: U32) -> tuple[F32, F32]:
    pair = bits.view(np.float16).reshape(-1, 2).astype(np.float32)
    return pair[:, 0], pair[:, 1]


def signed(bits: U32) -> npt.NDArray[np.int64]:
    return bits.view(np.int32).astype(np.int64)


def wrap(values: npt.ArrayLike) -> U32:
    return (np.asarray(values, np.int64) & 0xFFFFFFFF).astype(np.uint32)


def extreme(pick: Callable[..., F32], zero: Callable[..., U32], a: F32, b: F32) -> U32:
    """min or max, with NaN propagated and -0 below +0."""
    result = canonical(pick(a, b))
    equal = a == b
    result[equal] = zero(a.view(np.uint32), b.view(np.uint32))[equal]
    return result


def saturate(values: npt.NDArray[np.floating], low: int, high: int) -> U32:
    return wrap(
        np.nan_to_num(np.clip(np.nan_to_num(values.astype(np.float64), nan=0.0), low, high)).astype(np.int64)
    )


def sext24(bits: U32) -> npt.NDArray[np.int64]:
    return (signed(bits << np.uint32(8))) >> 8


INTEGER: dict[str, Callable[[U32, U32], npt.ArrayLike]] = {
    "add rf30, rf20, rf21": lambda a, b: a + b,
    "sub rf30, rf20, rf21": lambda a, b: a - b,
    "nop; add rf30, rf20, rf21": lambda a, b: a + b,
    "nop; sub rf30, rf20, rf21": lambda a, b: a - b,
    "min rf30, rf20, rf21": lambda a, b: np.minimum(signed(a), signed(b)),
    "max rf30, rf20, rf21": lambda a, b: np.maximum(signed(a), signed(b)),
    "umin rf30, rf20, rf21": np.minimum,
    "umax rf30, rf20, rf21": np.maximum,
    "and rf30, rf20, rf21": lambda a, b: a & b,
    "or rf30, rf20, rf21": lambda a, b: a | b,
    "xor rf30, rf20, rf21": lambda a, b: a ^ b,
    "not rf30, rf20": lambda a, b: ~a,
    "neg rf30, rf20": lambda a, b: -signed(a),
    "shl rf30, rf20, rf21": lambda a, b: a << (b & 31),
    "shr rf30, rf20, rf21": lambda a, b: a >> (b & 31),
    "asr rf30, rf20, rf21": lambda a, b: signed(a) >> (b & 31),
    "ror rf30, rf20, rf21": lambda a, b: ((a.astype(np.uint64) << 32 | a) >> (b & 31)) & 0xFFFFFFFF,
    "clz rf30, rf20": lambda a, b: [32 - int(x).bit_length() for x in a],
    "vadd rf30, rf20, rf21": lambda a, b: (a.view(np.uint16) + b.view(np.uint16)).view(np.uint32),
    "vsub rf30, rf20, rf21": lambda a, b: (a.view(np.uint16) - b.view(np.uint16)).view(np.uint32),
    "nop; smul24 rf30, rf20, rf21": lambda a, b: sext24(a) * sext24(b),
    "nop; umul24 rf30, rf20, rf21": lambda a, b: (a & 0xFFFFFF).astype(np.uint64) * (b & 0xFFFFFF) & 0xFFFFFFFF,
    "nop; multop -, rf20, rf21\nnop; umul24 rf30, rf20, rf21": lambda a, b: a * b,
    "nop; multop -, rf20, rf21\nnop; umul24 -, rf20, rf21\nnop; umul24 rf30, rf20, rf21": lambda a, b: (
        (a & 0xFFFFFF).astype(np.uint64) * (b & 0xFFFFFF) & 0xFFFFFFFF
    ),
    "nop; mov rf30, rf20": lambda a, b: a,
    "nop; fmov rf30, rf20": lambda a, b: a,
    "nop; mov rf30, -16": lambda a, b: np.full(16, 0xFFFFFFF0),
    "nop; mov rf30, 0x3b800000": lambda a, b: np.full(16, 0x3B800000),
    "ftoiz rf30, rf20": lambda a, b: saturate(np.trunc(f(a)), -(2**31), 2**31 - 1),
    "ftoin rf30, rf20": lambda a, b: saturate(np.rint(f(a)), -(2**31), 2**31 - 1),
    "ftouz rf30, rf20": lambda a, b: saturate(np.trunc(f(a)), 0, 2**32 - 1),
    "eidx rf30": lambda a, b: np.arange(16),
    "msf rf30": lambda a, b: np.ones(16),
}

FLOAT: dict[str, Callable[[U32, U32], npt.ArrayLike]] = {
    "fadd rf30, rf20, rf21": lambda a, b: canonical(f(a) + f(b)),
    "fsub rf30, rf20, rf21": lambda a, b: canonical(f(a) - f(b)),
    "nop; fmul rf30, rf20, rf21": lambda a, b: canonical(f(a) * f(b)),
    "nop; fmul rf30, rf20.abs, rf21": lambda a, b: canonical(np.abs(f(a)) * f(b)),
    "fadd rf30, rf20, rf21.abs": lambda a, b: canonical(f(a) + np.abs(f(b))),
    "fadd rf30, rf20.l, rf21.h": lambda a, b: canonical(halves(a)[0] + halves(b)[1]),
    "fsub rf30, rf20.h, rf21": lambda a, b: canonical(halves(a)[1] - f(b)),
    "fmin rf30, rf20, rf21": lambda a, b: extreme(np.minimum, np.bitwise_or, f(a), f(b)),
    "fmax rf30, rf20, rf21": lambda a, b: extreme(np.maximum, np.bitwise_and, f(a), f(b)),
    "fround rf30, rf20": lambda a, b: canonical(np.rint(f(a))),
    "ftrunc rf30, rf20": lambda a, b: canonical(np.trunc(f(a))),
    "ffloor rf30, rf20": lambda a, b: canonical(np.floor(f(a))),
    "fceil rf30, rf20.l": lambda a, b: canonical(np.ceil(halves(a)[0])),
    "itof rf30, rf20": lambda a, b: float_bits(signed(a)),
    "utof rf30, rf20": lambda a, b: float_bits(a),
    "nop; fmov rf30, rf20.abs": lambda a, b: a & 0x7FFFFFFF,
    "nop; fmov rf30, rf20.l": lambda a, b: canonical(halves(a)[0]),
    "nop; fmov rf30, rf20.h": lambda a, b: canonical(halves(a)[1]),
    "nop; fmov rf30.l, rf20": lambda a, b: half_bits(f(a)),  # the old value's high half is 0
    "nop; fmov rf30.h, rf20": lambda a, b: half_bits(f(a)) << 16 | 7,
    "fadd rf30.h, rf20, rf21": lambda a, b: half_bits(f(canonical(f(a) + f(b)))) << 16 | 7,
    "vfpack rf30, rf20, rf21": lambda a, b: half_bits(f(a)) | half_bits(f(b)) << 16,
    "vfpack rf30, rf20.h, rf21.l": lambda a, b: half_bits(halves(a)[1]) | half_bits(halves(b)[0]) << 16,
    "recip rf30, rf20": lambda a, b: canonical(np.float32(1) / f(a)),
    "nop; mov recip, rf20\nnop; nop\nnop; nop\nnop; mov rf30, r4": lambda a, b: canonical(np.float32(1) / f(a)),
}

SWAPPED = {
    "": lambda x, y: (x, y),
    ".ll": lambda x, y: (x, x),
    ".hh": lambda x, y: (y, y),
    ".swp": lambda x, y: (y, x),
}


@pytest.mark.parametrize("line", INTEGER)
@given(a=vectors, b=vectors)
@examples
def test_integer(line: str, a: U32, b: U32) -> None:
    result, _, _ = run(line, a, b)
    with np.errstate(all="ignore"):
        expected = wrap(INTEGER[line](a, b))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("line", FLOAT)
@given(a=vectors, b=vectors)
@examples
def test_float(line: str, a: U32, b: U32) -> None:
    with np.errstate(all="ignore"):
        expected = FLOAT[line](a, b)
    result, _, _ = run(line, a, b)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("unpack", [*SWAPPED, ".ff"])
@pytest.mark.parametrize("op", ["vfmul", "vfmin", "vfmax"])
@given(a=vectors, b=vectors)
@examples
def test_half_pairs(op: str, unpack: str, a: U32, b: U32) -> None:
    lines = ("nop; " if op == "vfmul" else "") + f"{op} rf30, rf20{unpack}, rf21"
    with np.errstate(all="ignore"):
        single = halves(half_bits(f(a)))[0]
        pair = (single, single) if unpack == ".ff" else SWAPPED[unpack](*halves(a))
        expected = np.zeros(16, np.uint32)
        for shift, x, y in zip((0, 16), pair, halves(b), strict=True):
            if op == "vfmul":
                bits = canonical(x * y)
            elif op == "vfmin":
                bits = extreme(np.minimum, np.bitwise_or, x.copy(), y.copy())
            else:
                bits = extreme(np.maximum, np.bitwise_and, x.copy(), y.copy())
            expected |= half_bits(f(bits)) << np.uint32(shift)
    np.testing.assert_array_equal(run(lines, a, b)[0], expected)


def within_one_ulp(result: U32, expected: npt.NDArray[np.float64]) -> None:
    with np.errstate(all="ignore"):
        nearest = expected.astype(np.float32)
        low, high = np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))
    np.testing.assert_array_equal(np.isnan(f(result)), np.isnan(expected))
    good = np.isnan(expected) | (f(result) >= low) & (f(result) <= high)
    assert good.all(), (f(result)[~good], expected[~good])


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("exp", np.exp2),
        ("log", np.log2),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("rsqrt2", lambda x: 1 / np.sqrt(x)),
        ("sin", lambda x: np.sin(np.pi * np.clip(x, -0.5, 0.5))),
    ],
)
@given(a=vectors)
@examples
def test_special_functions(op: str, function: Callable[..., npt.NDArray[np.float64]], a: U32) -> None:
    with np.errstate(all="ignore"):
        expected = function(f(a).astype(np.float64))
    within_one_ulp(run(f"{op} rf30, rf20", a, a)[0], expected)
    within_one_ulp(run(f"nop; mov {op}, rf20\nnop; nop\nnop; nop\nnop; mov rf30, r4", a, a)[0], expected)


CONDITIONS: dict[tuple[str, str], Callable[[U32, U32], npt.NDArray[np.bool_]]] = {
    ("xor", "z"): lambda a, b: a == b,
    ("sub", "n"): lambda a, b: signed(wrap(signed(a) - signed(b))) < 0,
    ("add", "c"): lambda a, b: a.astype(np.uint64) + b > 0xFFFFFFFF,
    ("sub", "c"): lambda a, b: a < b,
    ("min", "c"): lambda a, b: signed(a) > signed(b),
    ("fcmp", "z"): lambda a, b: f(a) == f(b),
    ("fcmp", "n"): lambda a, b: f(a) < f(b),
    ("fcmp", "c"): lambda a, b: f(a) <= f(b),
    ("fadd", "z"): lambda a, b: f(a) + f(b) == 0,
}


@pytest.mark.parametrize(("op", "flag"), CONDITIONS)
@given(a=vectors, b=vectors)
@examples
def test_push(op: str, flag: str, a: U32, b: U32) -> None:
    with np.errstate(all="ignore"):
        expected = CONDITIONS[op, flag](a, b)
    _, flag_a, flag_b = run(f"{op}.push{flag} -, rf20, rf21", a, b)
    np.testing.assert_array_equal(flag_a, expected)
    assert not flag_b.any()


UPDATES: dict[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "and{}": lambda old, x: old & x,
    "andn{}": lambda old, x: old & ~x,
    "nor{}": lambda old, x: ~(old | x),
    "norn{}": lambda old, x: ~(old | ~x),
}


@pytest.mark.parametrize("flag", "znc")
@pytest.mark.parametrize("update", UPDATES)
@given(a=vectors, b=vectors)
@examples
def test_flag_updates(update: str, flag: str, a: U32, b: U32) -> None:
    """A first gets "a less than b" (unsigned), B "a equals b"; then A is combined with a condition of a - b."""
    first, second = a == b, a < b
    condition = {"z": first, "n": CONDITIONS["sub", "n"](a, b), "c": second}[flag]
    lines = "xor.pushz -, rf20, rf21\nsub.pushc -, rf20, rf21\nsub." + update.format(flag) + " -, rf20, rf21"
    _, flag_a, flag_b = run(lines, a, b)
    np.testing.assert_array_equal(flag_a, UPDATES[update](second, condition))
    np.testing.assert_array_equal(flag_b, first)


@pytest.mark.parametrize(
    ("cond", "which", "inverse"), [("ifa", 1, 0), ("ifb", 2, 0), ("ifna", 1, 1), ("ifnb", 2, 1)]
)
@given(a=vectors, b=vectors)
@examples
def test_conditions(cond: str, which: int, inverse: int, a: U32, b: U32) -> None:
    result = run(f"xor.pushz -, rf20, rf21\nsub.pushc -, rf20, rf21\nadd.{cond} rf30, rf20, rf21", a, b)
    active = result[which] != inverse
    np.testing.assert_array_equal(result[0], np.where(active, a + b, 7))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # Both ALUs read before either writes, whichever needs the other's register.
        ("or rf20, rf21, rf21; mov rf21, rf20\nsub rf30, rf20, rf21", lambda a, b: b - a),
        ("add rf20, rf20, rf21; mov rf30, rf20", lambda a, b: a),
        ("add rf30, rf20, rf21; mov rf20, rf21", lambda a, b: a + b),
        # Conditions see the flags from before the instruction.
        ("xor.pushz -, rf20, rf20\nor.pushz -, rf20, r1; mov.ifa rf30, rf21", lambda a, b: b),
        ("xor.pushz -, rf20, rf20\nadd.ifna rf30, rf20, rf21; mov.pushz -, r1", lambda a, b: np.full(16, 7)),
        # Magic destinations: r5 takes the first lane of each quad, r5rep the first lane.
        ("nop; mov r5, rf20\nnop; mov rf30, r5", lambda a, b: np.repeat(a[::4], 4)),
        ("nop; mov r5rep, rf20\nnop; mov rf30, r5", lambda a, b: np.repeat(a[:1], 16)),
        ("nop; mov r5, rf20\nnop; mov rf30, r5; ldunif", lambda a, b: np.repeat(a[::4], 4)),
    ],
)
@given(a=vectors, b=vectors)
@examples
def test_order_within_an_instruction(
    lines: str, expected: Callable[[U32, U32], npt.ArrayLike], a: U32, b: U32
) -> None:
    np.testing.assert_array_equal(run(lines, a, b)[0], wrap(expected(a, b)))


@given(a=vectors, b=vectors)
@examples
def test_first_lane_of_a_flag(a: U32, b: U32) -> None:
    for op, active in (("flafirst", a < b), ("flnafirst", a >= b)):
        expected = np.zeros(16, np.uint32)
        expected[np.flatnonzero(active)[:1]] = 1
        np.testing.assert_array_equal(run(f"sub.pushc -, rf20, rf21\n{op} rf30", a, b)[0], expected)
