# SPDX-License-Identifier: BSD-2-Clause
"""What a V3D 7.1's QPU does otherwise than a 4.2's: sources, moves, other lanes, vectors in memory, payload."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from tests.support.qpu_asm71 import assemble
from tests.support.qpu_bench import DATA, END, SINGLE_SEGMENT, U32, Outcome, dispatch, float_bits
from tests.vgpu.test_qpu_alu import canonical, examples, f, half_bits, vectors

# rf20 and rf21 are the operands, rf30 the old value of the result: 7 in every lane.
PROLOGUE = """
eidx rf8; nop
shl rf8, rf8, 2; nop
nop; nop; ldunif
add rf10, rf8, rf0; nop
nop; nop; ldunif
add rf11, rf10, rf0; nop
nop; mov tmua, rf10
nop; mov tmua, rf11
nop; nop; ldtmu.rf20
mov rf30, 7; nop
nop; nop; ldtmu.rf21
"""
EPILOGUE = """
nop; nop; ldunif
add rf11, rf11, rf0; mov tmud, rf30
nop; mov tmua, rf11
"""


def outcome(lines: str, a: U32, b: U32) -> Outcome:
    return dispatch(
        PROLOGUE + lines + EPILOGUE + END,
        [DATA, 64, 64],
        np.concatenate([a, b]),
        flags=SINGLE_SEGMENT,
        version=71,
    )


def run(lines: str, a: U32, b: U32) -> U32:
    """rf30 after the lines."""
    found = outcome(lines, a, b)
    assert found.error == ""
    assert found.fault is None
    return found.words(DATA + 128, 16)


def clamp(bits: U32, low: float, high: float) -> U32:
    """NaN and -0 stay."""
    value = f(bits)
    result = bits.copy()
    result[value < low] = float_bits(low)
    result[value > high] = float_bits(high)
    return result


def halves(bits: U32, high: bool) -> U32:
    return (bits >> np.uint32(16)) if high else (bits & np.uint32(0xFFFF))


def signed(half: U32) -> U32:
    return half.astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32)


UNARY: dict[str, Callable[[U32], npt.ArrayLike]] = {
    "mov rf30, rf20; nop": lambda a: a,
    "nop; mov rf30, rf20": lambda a: a,
    "mov rf30, rf20.ul; nop": lambda a: halves(a, False),
    "mov rf30, rf20.uh; nop": lambda a: halves(a, True),
    "nop; mov rf30, rf20.il": lambda a: signed(halves(a, False)),
    "nop; mov rf30, rf20.ih": lambda a: signed(halves(a, True)),
    "fmov rf30, rf20.sat; nop": lambda a: clamp(a, 0, 1),
    "nop; fmov rf30, rf20.nsat": lambda a: clamp(a, -1, 1),
    "nop; fmov rf30, rf20.max0": lambda a: clamp(a, 0, np.inf),
    "fmov rf30, rf20.abs; nop": lambda a: a & 0x7FFFFFFF,
    "fmov rf30.h, rf20; nop": lambda a: half_bits(f(a)) << 16 | 7,
    "clz rf30, rf20; nop": lambda a: np.array([32 - int(x).bit_length() for x in a], np.uint32),
    "itof rf30, rf20; nop": lambda a: float_bits(a.view(np.int32).astype(np.float32)),
    "ballot rf30, rf20; nop": lambda a: np.full(16, (np.uint32(1) << np.flatnonzero(a)).sum(), np.uint32),
    "bcastf rf30, rf20; nop": lambda a: np.full(16, a[0]),
    "alleq rf30, rf20; nop": lambda a: np.full(16, (a == a[0]).all() * 0xFFFFFFFF, np.uint32) & 1,
}


@pytest.mark.parametrize("line", UNARY)
@given(a=vectors)
@examples
def test_one_source(line: str, a: U32) -> None:
    with np.errstate(all="ignore"):
        assert run(line, a, a).tolist() == np.asarray(UNARY[line](a)).astype(np.uint32).tolist()


BINARY: dict[str, Callable[[U32, U32], npt.ArrayLike]] = {
    "add rf30, rf20, rf21; nop": lambda a, b: a + b,
    "add rf30, rf20, -3; nop": lambda a, b: a - np.uint32(3),
    "sub rf30, 5, rf20; nop": lambda a, b: np.uint32(5) - a,
    "nop; sub rf30, rf20, rf21": lambda a, b: a - b,
    "nop; sub rf30, 7, rf21": lambda a, b: np.uint32(7) - b,
    "nop; add rf30, rf21, 0x3f800000": lambda a, b: b + np.uint32(0x3F800000),
    "fadd rf30, rf20, rf21; nop": lambda a, b: canonical(f(a) + f(b)),
    "fadd rf30, rf21, rf20; nop": lambda a, b: canonical(f(a) + f(b)),
    "nop; fmul rf30, rf20, 0x40000000": lambda a, b: canonical(f(a) * np.float32(2)),
    "shuffle rf30, rf20, rf21; nop": lambda a, b: a[b % 16],
    # Both read before either writes: four sources at once.
    "add rf30, rf20, rf21; add rf21, rf20, rf20": lambda a, b: a + b,
    "add rf20, rf20, rf21; sub rf30, rf20, rf21": lambda a, b: a - b,
    # What a load without a name brings to rf0 is there for the next instruction; it reads the old one.
    "mov rf0, rf21; nop\nadd rf30, rf20, rf0; nop; ldunif\nnop; nop": lambda a, b: a + b,
}


@pytest.mark.parametrize("line", BINARY)
@given(a=vectors, b=vectors)
@examples
def test_two_sources(line: str, a: U32, b: U32) -> None:
    extra = [DATA, 64, *([9] if "ldunif" in line else []), 64]
    found = dispatch(
        PROLOGUE + line + EPILOGUE + END, extra, np.concatenate([a, b]), flags=SINGLE_SEGMENT, version=71
    )
    assert (found.error, found.fault) == ("", None)
    with np.errstate(all="ignore"):
        assert found.words(DATA + 128, 16).tolist() == np.asarray(BINARY[line](a, b)).astype(np.uint32).tolist()


LANES = np.arange(16, dtype=np.uint32)


def test_lanes_that_take_no_part() -> None:
    """Those whose condition does not hold: they do not count, and keep what they have."""
    half = "sub.pushn -, rf21, 8; nop\n"  # lanes 0 to 7
    a = np.where(LANES < 8, 5, LANES).astype(np.uint32)
    assert run(half + "alleq.ifa rf30, rf20; nop", a, LANES).tolist() == [1] * 8 + [7] * 8
    assert run(half + "alleq.ifna rf30, rf20; nop", a, LANES).tolist() == [7] * 8 + [0] * 8
    assert run(half + "ballot.ifna rf30, rf20; nop", a, LANES).tolist() == [7] * 8 + [0xFF00] * 8
    assert run(half + "bcastf.ifna rf30, rf20; nop", a, LANES).tolist() == [7] * 8 + [8] * 8
    zeros = np.array([0, 0x80000000] * 8, np.uint32)
    assert run("alleq rf30, rf20; nop", zeros, LANES).tolist() == [0] * 16
    assert run("allfeq rf30, rf20; nop", zeros, LANES).tolist() == [1] * 16
    assert run("allfeq rf30, rf20; nop", np.full(16, 0x7FC00000, np.uint32), LANES).tolist() == [0] * 16


def test_lanes_that_do_not_exist() -> None:
    """Of 10 threads in a workgroup; no source says whether the other lanes of the batch take part."""
    found = dispatch("ballot rf1, rf2; nop\n" + END, [], size=10, flags=SINGLE_SEGMENT, version=71)
    assert "ballot with lanes that do not exist" in found.error


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("at", [4, 12, 4096 - 8])
def test_vectors_do_not_wrap(at: int, track: bool) -> None:
    """A 4.2's stay within 16 bytes; here one may even lie on two pages."""
    values = np.arange(3072, dtype=np.uint32) + 100
    code = """
    nop; nop; ldunif
    nop; mov rf5, rf0
    nop; mov tmuau, rf5
    nop; nop; ldtmu.rf20
    nop; nop; ldtmu.rf21
    nop; nop; ldtmu.rf22
    nop; nop; ldtmu.rf23
    nop; nop; ldunif
    eidx rf8; nop
    shl rf8, rf8, 4; nop
    add rf9, rf8, rf0; mov tmud, rf23
    nop; mov tmud, rf22
    nop; mov tmud, rf21
    nop; mov tmud, rf20
    nop; mov tmuau, rf9
    """
    vec4 = 0xFFFFFFFC  # a regular access of four words by lane
    target = DATA + 8192 + 4
    found = dispatch(
        code + END, [DATA + at, vec4, target, vec4], values, flags=SINGLE_SEGMENT, version=71, track=track
    )
    assert (found.error, found.fault) == ("", None)
    expected = values[at // 4 :][:4][::-1]
    assert found.words(target, 64).tolist() == expected.tolist() * 16
    if track:
        start = DATA - 0x10000 + at
        assert (found.noted[start : start + 16] & 1).all()
        assert not found.noted[start + 16]


def test_the_payload() -> None:
    """Workgroup x and y in rf3, z and the local index in rf2; CFG4 is the number of batches."""
    code = """
    eidx rf8; nop
    shl rf8, rf8, 2; nop
    nop; nop; ldunif
    shr rf9, rf3, 10; nop
    add rf10, rf8, rf0; nop
    add rf10, rf10, rf9; mov tmud, rf2
    nop; mov tmua, rf10
    """
    found = dispatch(code + END, [DATA], groups=(1, 2, 1), flags=SINGLE_SEGMENT, version=71)
    assert (found.error, found.fault) == ("", None)
    assert found.words(DATA, 32).tolist() == [lane << 26 for lane in range(16)] * 2
    found = dispatch(code + END, [DATA], groups=(1, 2, 1), flags=SINGLE_SEGMENT, version=71, cfg={4: 1})
    assert "number of batches does not fit" in found.error


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("mov quad, rf1; nop", "quad or rep"),
        ("nop; mov rep, rf1", "quad or rep"),
        ("nop; nop; ldtmu.rep", "quad or rep"),
        ("rot rf1, rf2, 1; nop", "not modelled"),
        ("rotq rf1, rf2, 1; nop", "not modelled"),
        ("vpack rf1, rf2, rf3; nop", "not modelled"),
        ("v8pack rf1, rf2, rf3; nop", "not modelled"),
        ("nop; ftounorm16 rf1, rf2", "not modelled"),
        ("rsqrt2 rf1, rf2; nop", "not modelled"),
        ("fdx rf1, rf2; nop", "not modelled"),
        ("vfla rf1; nop", "not modelled"),
        ("flpop rf1, rf2; nop", "not modelled"),
        ("fcmp rf1, rf2, rf3; nop", "used for its effect"),
        ("nop; mov tmuc, rf1", "texture"),
        ("nop; nop; ldtmu.rf1; wrtmuc", "texture"),
        ("barrierid rf1; nop", "barrierid"),
        ("nop; mov tlb, rf1", "not modelled"),
    ],
)
def test_what_is_not_modelled_is_named(line: str, error: str) -> None:
    found = dispatch(line + "\n" + END, [], flags=SINGLE_SEGMENT, version=71)
    assert error in found.error
    assert found.error.startswith("QPU instruction at 0x")


def test_accumulators_are_reserved() -> None:
    """As write addresses, and where a 4.2 has the special function unit."""
    word = int.from_bytes(assemble("mov -, rf1; nop"), "little")
    for address in (*range(5), *range(19, 25)):
        code = (word & ~(63 << 32) | address << 32).to_bytes(8, "little") + assemble(END)
        assert "reserved magic write address" in dispatch(code, [], flags=SINGLE_SEGMENT, version=71).error
