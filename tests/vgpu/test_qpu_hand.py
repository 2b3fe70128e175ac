# SPDX-License-Identifier: BSD-2-Clause
"""What programs do that people write by hand for a V3D 4.2, and Mesa's compiler does not.

What is expected was seen on a Raspberry Pi 4 by the tests of py-videocore6 (docs/adr/0033).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import (
    CODE,
    DATA,
    FOUR_THREADS,
    LANE_ADDRESS,
    PROPAGATE_NAN,
    STORE_RF30,
    U32,
    dispatch,
    float_bits,
)

# How such programs end: with two sections.
END = "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\nnop; nop\nnop; nop; thrsw\nnop; nop\nnop; nop\nnop; nop\n"
F32 = npt.NDArray[np.float32]
LANES = np.arange(16, dtype=np.uint32)


def result(
    lines: str, data: U32 | None = None, rows: int = 1, uniforms: tuple[int, ...] = (), flags: int = 0
) -> U32:
    """What is left from DATA on, in rows of a lane each; rf10 is the lane's address in the first."""
    outcome = dispatch(LANE_ADDRESS + lines + END, [DATA, *uniforms], LANES if data is None else data, flags=flags)
    assert (outcome.error, outcome.fault) == ("", None)
    return outcome.words(DATA, 16 * rows).reshape(rows, 16)


def error(lines: str, data: U32 | None = None, flags: int = 0) -> str:
    return dispatch(LANE_ADDRESS + lines + END, [DATA], LANES if data is None else data, flags=flags).error


# ---- thread switches and branches ----


def test_thread_switches_that_overlap() -> None:
    """Each in the delay slots of the one before."""
    lines = """
    nop; mov r3, 8
    add r3, r3, r3
    shl r3, r3, 2
    add rf11, rf10, r3; mov tmua, rf10; thrsw
    nop; nop
    nop; mov tmua, rf11; thrsw
    nop; nop; ldtmu.r1
    nop; nop; thrsw
    nop; nop; ldtmu.r2
    add rf30, r1, r2
    """
    assert result(lines + STORE_RF30, np.arange(32, dtype=np.uint32)).tolist() == [list(range(16, 48, 2))]


def test_a_branch_that_moves_no_uniforms_may_say_where_to() -> None:
    code = bytearray(assemble(LANE_ADDRESS + "b 8\n" + "nop; mov rf30, 1\n" * 4 + STORE_RF30 + END))
    at = 8 * 3
    (word,) = struct.unpack_from("<Q", code, at)
    struct.pack_into("<Q", code, at, word | 7 << 15)
    outcome = dispatch(bytes(code), [DATA])
    assert (outcome.error, outcome.words(DATA, 16).tolist()) == ("", [1] * 16)


# ---- batches ----

# Adds 1 to the words of its lanes, and uses no register that has the payload before it has written to it.
COUNT = """
    eidx rf0; nop; ldunifrf.rf9
    shl rf2, rf0, 2
    add rf10, rf2, rf9
    nop; mov tmud, 1
    nop; mov tmuau, rf10
"""
ATOMIC_ADD = 0xFFFFFF87


@pytest.mark.parametrize("per_supergroup", [1, 3, 16])
@pytest.mark.parametrize("batches", [1, 5, 16, 21, 50])
@pytest.mark.parametrize("threads", [1, 4])
def test_as_many_batches_as_the_dispatch_says(batches: int, per_supergroup: int, threads: int) -> None:
    """Of 16 workgroups of a batch each; also fewer than these, and more."""
    outcome = dispatch(
        COUNT + END, [DATA, ATOMIC_ADD], groups=(16, 1, 1), per_supergroup=per_supergroup, flags=0,
        cfg={4: batches - 1}, threads=threads,
    )  # fmt: skip
    assert (outcome.error, outcome.words(DATA, 16).tolist()) == ("", [batches] * 16)
    assert outcome.instructions == batches * 12


@pytest.mark.parametrize(
    ("lines", "reads"),
    [
        ("or r0, rf0, rf0", True),
        ("nop; mov r0, rf2", True),
        ("eidx rf0\nadd r0, rf1, rf2", True),
        ("add rf0, rf0, 1", True),
        ("nop; mov.ifa rf0, r1\nnop; mov r0, rf0", True),
        ("nop; fmov rf2.l, r1\nnop; mov r0, rf2", True),
        ("msf r0", True),
        ("b.anya 0\nnop; mov rf0, 1\nnop; mov rf2, 1\nnop; nop\nadd r0, rf0, rf2", True),
        ("b rf2\nnop; nop\nnop; nop\nnop; nop", True),
        ("nop; mov rf0, 1\nnop; nop; ldunifrf.rf2\nadd r0, rf0, rf2", False),
        ("add r0, rf1, 2\nb.anya 0\nnop; nop\nnop; nop\nnop; nop", False),
    ],
)
def test_batches_beyond_the_workgroups_must_not_ask_which_they_are(lines: str, reads: bool) -> None:
    outcome = dispatch(lines + "\n" + END, [0], flags=0, cfg={4: 1})
    assert ("batches beyond the workgroups" in outcome.error) == reads
    assert reads or outcome.error == ""
    assert "batches beyond" not in dispatch(lines + "\n" + END, [0], flags=0).error


@pytest.mark.parametrize(("flags", "batches", "numbers"), [(0, 8, range(0, 32, 4)), (0, 48, range(0, 32, 2)),
                                                           (FOUR_THREADS, 32, range(32))])  # fmt: skip
def test_numbers_of_threads(flags: int, batches: int, numbers: range) -> None:
    """The QPU's in bits 2 and up, the thread's below: batches go to the QPUs in turn."""
    code = """
    tidx rf0; nop; ldunifrf.rf9
    shl rf2, rf0, 2
    add rf10, rf2, rf9
    nop; mov tmud, 1
    nop; mov tmua, rf10
    """
    outcome = dispatch(code + END, [DATA], groups=(16, 1, 1), flags=flags, cfg={4: batches - 1})
    assert (outcome.error, np.flatnonzero(outcome.words(DATA, 64)).tolist()) == ("", list(numbers))


def test_batches_take_turns() -> None:
    """After the barrier each takes what its neighbour has; the last gets what the first had before it took."""
    code = """
    tidx r0; nop; ldunifrf.rf9
    shr r0, r0, 1
    add r1, r0, 1
    and r1, r1, 15
    shl r0, r0, 6
    shl r1, r1, 6
    eidx r2
    shl r2, r2, 2
    add rf10, rf9, r2
    add rf11, rf10, r1
    add rf10, rf10, r0
    shr tmud, r0, 6
    nop; mov tmua, rf10
    barrierid syncb; nop; thrsw
    nop; nop
    nop; nop
    nop; mov tmua, rf11; thrsw
    nop; nop
    nop; nop
    nop; nop; ldtmu.rf30
    """
    outcome = dispatch(code + STORE_RF30 + END, [DATA], groups=(16, 1, 1), per_supergroup=16, flags=0)
    assert outcome.error == ""
    assert outcome.words(DATA, 256).reshape(16, 16)[:, 3].tolist() == [*range(1, 16), 0]


@pytest.mark.parametrize("batches", [1, 3, 8])
def test_a_barrier_of_fewer_batches_than_a_supergroup_has(batches: int) -> None:
    code = COUNT + "barrierid syncb; nop; thrsw\nnop; nop\nnop; nop\n"
    outcome = dispatch(
        code + END, [DATA, ATOMIC_ADD], groups=(16, 1, 1), per_supergroup=16, flags=0, cfg={4: batches - 1}
    )
    assert (outcome.error, outcome.words(DATA, 1)[0]) == ("", batches)


# ---- NaNs in a dispatch that does not propagate them ----

LOAD_R1 = "nop; mov tmua, rf10\nnop; nop; ldtmu.r1\n"
NAN, INFINITY = 0x7FC00000, 0x7F800000


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        (NAN, "fadd rf30, r1, r0"),
        (NAN, "fmin rf30, r0, r1"),
        (NAN, "nop; fmul -, r1, r1"),
        (NAN, "nop; fmov rf30.h, r1"),
        (NAN, "fcmp.pushn -, r0, r1"),
        (NAN, "fcmp.pushn -, r1.abs, r0"),
        (NAN, "ftoin rf30, r1"),
        (NAN, "ftouz rf30, r1"),
        (NAN, "vfpack rf30, r0, r1"),
        (NAN, "nop; mov recip, r1"),
        (NAN, "nop; fmul tmud, r1, r1"),
        (NAN, "fdx rf30, r1"),
        (0x7E00, "fadd rf30, r1.l, r0"),
        (0x7E000000, "vfmax rf30, r1, r0"),
        (INFINITY, "fsub rf30, r1, r1"),
        (INFINITY, "fcmp rf30, r1, r1"),
        (INFINITY, "nop; fmul rf30.l, r1, r0"),
        (0xBF800000, "rsqrt rf30, r1"),
        (0xBF800000, "nop; mov log, r1"),
    ],
)
def test_a_nan_is_an_error(word: int, lines: str) -> None:
    """As what an operation takes or as what it makes; in one lane, too."""
    data = np.where(LANES == 5, word, 0x3F800000).astype(np.uint32)
    found = error(LOAD_R1 + "nop; mov r0, 0\n" + lines + "\n", data)
    assert "NaN in a dispatch that does not propagate it" in found
    assert error(LOAD_R1 + "nop; mov r0, 0\n" + lines + "\n", data, PROPAGATE_NAN) == ""
    assert error(LOAD_R1 + "nop; mov r0, 0\n" + lines + "\n", np.full(16, 0x3F800000, np.uint32)) == ""


@pytest.mark.parametrize(
    "lines",
    ["nop; mov rf30, r1", "add rf30, r1, r1", "xor.pushz r0, r0, r0\nfadd.ifna rf30, r1, r1", "itof rf30, r1"],
)
def test_a_nan_that_no_operation_on_numbers_takes(lines: str) -> None:
    assert error(LOAD_R1 + lines + "\n", np.full(16, NAN, np.uint32)) == ""


# ---- the TMU ----


@pytest.mark.parametrize("components", [2, 3, 4])
def test_vectors_by_a_configuration_from_a_register(components: int) -> None:
    """Written, then read back: 16 bytes a lane."""
    store = "".join(f"add tmud, r0, {i}\n" for i in range(components))
    load = "".join(f"nop; nop; ldtmu.rf{20 + i}\n" for i in range(components))
    lines = f"""
    eidx r0
    shl r1, r0, 4
    add rf11, r1, rf9
    shl r0, r0, 4
    not tmuc, {7 - components}
    {store}
    nop; mov tmua, rf11
    not tmuc, {7 - components}
    nop; mov tmua, rf11; thrsw
    nop; nop
    nop; nop
    {load}
    add rf30, rf20, rf{19 + components}
    nop; nop; ldunifrf.r2
    add rf10, rf10, r2
    """
    found = result(lines + STORE_RF30, np.full(64, 9, np.uint32), 5, (256,))
    expected = np.full((16, 4), 9)
    expected[:, :components] = 16 * LANES[:, None] + np.arange(components)
    assert found[:4].reshape(16, 4).tolist() == expected.tolist()
    assert found[4].tolist() == (32 * LANES + components - 1).tolist()


def test_a_configuration_from_the_uniform_stream_into_tmuc() -> None:
    lines = "nop; nop; ldunifrf.tmuc\nnop; mov tmud, 1\nnop; mov tmua, rf10\n"
    assert result(lines, uniforms=(ATOMIC_ADD,)).tolist() == [list(range(1, 17))]


# ---- operations ----


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("fsub r2, r1, 1.0\nfcmp rf30, r1, r2", lambda x: np.ones_like(x)),
        ("fdx rf30, r1", (lambda x: (x[1::2] - x[::2]).repeat(2))),
        ("fdy rf30, r1", (lambda x: np.stack([x[2::4] - x[::4], x[3::4] - x[1::4]] * 2, 1).ravel())),
        ("nop; mov r2, 2.0\nfaddnf rf30, r2, r1", (lambda x: x + 2)),
        ("rsqrt2 rf30, r1", (lambda x: 1 / np.sqrt(x))),
    ],
)
def test_operations_on_numbers(lines: str, expected: Callable[[F32], F32]) -> None:
    x = np.float32(1.25) + LANES.astype(np.float32) ** 2
    lines = lines.replace("1.0", "0x3f800000").replace("2.0", "0x40000000")
    found = result(LOAD_R1 + lines + "\n" + STORE_RF30, float_bits(x)).view(np.float32)[0]
    np.testing.assert_allclose(found, expected(x), rtol=1e-6)


def test_fcmp_has_a_result_and_flags() -> None:
    lines = """
    nop; mov rf30, 0
    fcmp.pushn rf30.h, r1, 0x40800000
    nop; mov.ifa rf30, 7
    """
    found = result(LOAD_R1 + lines + STORE_RF30, float_bits(LANES))[0]
    difference = (LANES.astype(np.float16) - np.float16(4)).view(np.uint16).astype(np.uint32) << 16
    assert found.tolist() == np.where(LANES < 4, 7, difference).tolist()


FLAGS = "eidx r0\nand.pushz -, r0, 1\nand.pushz -, r0, 2\n"  # A: not bit 1 of the lane's number; B: not bit 0
POP = "flpop rf30, r0\nxor.pushz -, r0, 5\nxor.pushz -, r0, 4\n"  # and both flags are known again
A, B = LANES & 2 == 0, LANES & 1 == 0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("vfla rf30", A * 0x10001),
        ("vflna rf30", ~A * 0x10001),
        ("vflb rf30", B * 0x10001),
        ("vflnb rf30", ~B * 0x10001),
        ("flapush rf30, r0", LANES << 2 | A * 3),
        ("flbpush rf30, r0", LANES << 2 | B * 3),
        ("flapush r1, r0\nflbpush rf30, r1", LANES << 4 | A * 12 | B * 3),
        ("vfla.ifa rf30", A * 0x10001),
        ("flpop rf30, r0", LANES >> 2),
        (POP + "nop; mov.ifb rf30, 9", np.where(LANES == 5, 9, LANES >> 2)),
    ],
)  # fmt: skip
def test_flags_as_values(lines: str, expected: U32) -> None:
    assert result("nop; mov rf30, 0\n" + FLAGS + lines + "\n" + STORE_RF30)[0].tolist() == expected.tolist()


# ---- uniforms that the dispatch writes ----

MOVED = """
    nop; mov tmud, 7
    nop; mov tmua, rf10; thrsw
    nop; nop
    nop; nop
    nop; nop; ldunifrf.rf12
    add rf11, rf9, rf12
    bu 0, rf11
    nop; nop
    nop; nop
    nop; nop
    nop; nop; {take}
"""


@pytest.mark.parametrize("take", ["ldunifrf.rf30", "ldunif"])
@pytest.mark.parametrize("track", [False, True])
def test_uniforms_that_the_dispatch_has_written(take: str, track: bool) -> None:
    """The GPU may see what was there before: an error, up to the last word that was written."""
    code = LANE_ADDRESS + "tidx rf13\n" + MOVED.format(take=take) + "nop; mov rf30, 3\n" + END
    for offset, stale in ((0, True), (60, True), (64, False)):
        outcome = dispatch(code, [DATA, offset], np.full(32, 5, np.uint32), flags=0, track=track)
        assert ("which the dispatch has written" in outcome.error) == stale
        if stale:
            assert outcome.error.startswith(f"QPU instruction at 0x{CODE + 8 * 14:08x}")


def test_uniforms_of_which_only_some_lanes_write_one() -> None:
    code = LANE_ADDRESS + "eidx r0\nsub.pushz -, r0, 3\n" + MOVED.replace("mov tmua", "mov.ifa tmua") + END
    for offset, stale in ((8, False), (12, True), (16, False)):
        outcome = dispatch(code.format(take="ldunif"), [DATA, offset], np.full(32, 5, np.uint32), flags=0)
        assert ("which the dispatch has written" in outcome.error) == stale
