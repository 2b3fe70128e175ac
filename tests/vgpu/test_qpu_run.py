# SPDX-License-Identifier: BSD-2-Clause
"""Threads of the compute engine: branches, subroutines, uniform streams, sections."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import (
    CODE,
    DATA,
    END,
    LANE_ADDRESS,
    ONE_SECTION,
    PROPAGATE_NAN,
    STORE_RF30,
    UNIFORMS,
    dispatch,
)

# ---- control flow ----


@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize("back", ["b lri\nnop; nop", "lr rf32; nop\nb rf32"])
def test_subroutine(links: bool, back: str) -> None:
    """One behind the end of the program. It returns to what set the link register last: the call, or before."""
    code = (
        LANE_ADDRESS
        + f"""
        nop; mov rf1, 0
        nop; mov rf2, 0
        b 0; link                              # to where it would go anyhow
        nop; nop
        nop; nop
        nop; nop
        add rf1, rf1, 1; nop                   # linked to
        or.pushz -, rf2, rf2; nop
        b.alla 48{"; link" if links else ""}
        nop; mov rf2, 1
        nop; nop
        nop; nop
        or rf30, rf1, rf1; nop
        """
        + STORE_RF30
        + END
        + f"""
        nop; mov rf3, 5                        # subroutine
        {back}
        nop; nop
        nop; nop
        nop; nop
        """
    )
    outcome = dispatch(code, [DATA], flags=ONE_SECTION)
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.words(DATA, 16).tolist() == [1 if links else 2] * 16


@pytest.mark.parametrize("by_r5", [False, True])
@pytest.mark.parametrize(("source", "group"), [("r0", 16), ("rf32", 4)])
def test_rotation(source: str, group: int, by_r5: bool) -> None:
    """Lanes of an accumulator go round, those of the register file in each quad; -16 to 15, or by r5."""
    for code in range(1, 32):
        amount = code if code < 16 else code - 32
        outcome = dispatch(
            LANE_ADDRESS
            + f"""
            eidx {source}; nop
            nop; nop; ldunif
            nop; nop
            nop; add rf30, {source}, {source}; rot{"" if by_r5 else f".{code}"}
            """
            + STORE_RF30
            + END,
            [DATA, amount & 0xFFFFFFFF],
            flags=ONE_SECTION,
        )
        assert (outcome.error, outcome.fault) == ("", None)
        expected = np.roll(np.arange(16).reshape(-1, group), amount, axis=1).reshape(-1) * 2
        np.testing.assert_array_equal(outcome.words(DATA, 16), expected, str(amount))


def test_rotation_beside_an_addition() -> None:
    """The add ALU takes the register as it is, and what it writes there is not what is rotated."""
    outcome = dispatch(
        LANE_ADDRESS + "eidx r0; nop\nnop; nop\nadd r0, r0, r0; mov rf30, r0; rot.1\n" + STORE_RF30 + END,
        [DATA],
        flags=ONE_SECTION,
    )
    assert outcome.words(DATA, 16).tolist() == np.roll(np.arange(16), 1).tolist()


def test_a_branch_whose_unused_bits_are_set() -> None:
    """What says where uniforms go counts only where they move (py-videocore6 leaves it at 1)."""
    word = int.from_bytes(assemble("b 8"), "little") | 1 << 15
    code = word.to_bytes(8, "little") + assemble("nop; nop\nnop; nop\nnop; nop\n" + END * 2)
    assert dispatch(code, [], flags=ONE_SECTION).error == ""


def test_loop_with_uniforms() -> None:
    """Sums a uniform over lane-dependent numbers of rounds, by a backward branch that rewinds the uniforms."""
    code = (
        LANE_ADDRESS
        + """
        eidx rf1; mov rf30, 0
        nop; nop; ldunif                       # loop: the same uniform each round
        sub.pushn rf1, rf1, 1; nop
        add.ifna rf30, rf30, r5; nop
        bu.anyna -56, r:unif                   # back by 7 instructions from after the delay slots
        nop; nop
        nop; nop
        nop; nop
        """
        + STORE_RF30
        + END
    )
    outcome = dispatch(code, [DATA, 5, (-8) & 0xFFFFFFFF], flags=ONE_SECTION)
    assert outcome.error == ""
    np.testing.assert_array_equal(outcome.words(DATA, 16), 5 * np.arange(16))
    assert outcome.instructions == 4 + 16 * 7 + 2 + 3
    assert outcome.bytes_read == 4 * (1 + 2 * 16)
    assert outcome.bytes_written == 64


@pytest.mark.parametrize(
    ("cond", "flags", "taken"),
    [
        ("a0", 0x0001, True),
        ("a0", 0xFFFE, False),
        ("na0", 0xFFFE, True),
        ("na0", 0x0001, False),
        ("alla", 0xFFFF, True),
        ("alla", 0xFFEF, False),
        ("anyna", 0xFFEF, True),
        ("anyna", 0xFFFF, False),
        ("anya", 0x0100, True),
        ("anya", 0x0000, False),
        ("allna", 0x0000, True),
        ("allna", 0x0100, False),
    ],
)
def test_branch_conditions(cond: str, flags: int, taken: bool) -> None:
    code = (
        LANE_ADDRESS
        + f"""
        eidx r1; mov rf30, 1; ldunif
        shr r1, r5, r1
        and r1, r1, 1
        xor.pushz -, r1, 1
        b.{cond} 8
        nop; mov rf31, 1
        nop; mov rf32, 2
        add rf33, rf31, rf32
        nop; mov rf30, 0                       # jumped over when taken
        add rf30, rf30, rf33                   # the three delay slots ran in any case
        """
        + STORE_RF30
        + END
    ).replace("eidx r1; mov rf30, 1; ldunif", "eidx r1; mov rf30, 1\nnop; nop; ldunif")
    outcome = dispatch(code, [DATA, flags], flags=ONE_SECTION)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [4 if taken else 3] * 16


def test_branch_ignores_lanes_without_samples() -> None:
    """With a workgroup of 5, lanes 5 to 15 do not exist; msfign p leaves them out, q counts lanes 5 to 7."""
    body = """
        msf.pushz -                            # A: the lane does not exist
        mov rf30, 0
        b.{cond} 8
        nop; nop
        nop; nop
        nop; nop
        nop; mov rf30, 1
        """.replace("mov rf30, 0", "nop; mov rf30, 0")
    for cond, jumps in (("anya", True), ("anyap", False), ("anyaq", True), ("allna", False), ("allnap", True)):
        code = LANE_ADDRESS + body.format(cond=cond) + STORE_RF30 + END
        outcome = dispatch(code, [DATA], size=5, flags=ONE_SECTION)
        assert outcome.error == ""
        assert outcome.words(DATA, 6).tolist() == [0 if jumps else 1] * 5 + [0], cond


def test_branch_to_register_and_absolute_uniforms() -> None:
    code = (
        LANE_ADDRESS
        + """
        nop; nop; ldunifrf.rf1
        bu rf1, a:unif
        nop; nop
        nop; nop
        nop; nop
        nop; mov rf30, 0                       # never
        nop; nop; ldunifrf.rf30
        """
        + STORE_RF30
        + END
    )
    outcome = dispatch(code, [DATA, CODE + 8 * 9, UNIFORMS + 16, 0, 77], flags=ONE_SECTION)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [77] * 16


def test_second_uniform_stream() -> None:
    code = LANE_ADDRESS + "nop; nop; ldunifrf.unifa\nnop; nop; ldunifa\nnop; mov r1, r5; ldunifarf.rf2\n"
    code += "add rf30, r1, rf2\n" + STORE_RF30 + END
    outcome = dispatch(code, [DATA, DATA + 64], [0] * 16 + [30, 12], flags=ONE_SECTION)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [42] * 16


def test_sections_and_thread_end() -> None:
    """Two switches, then two in a row announce the last section; the next one ends the thread after two slots."""
    switch = "nop; nop; thrsw\nnop; nop\nnop; nop\n"
    code = LANE_ADDRESS + switch + switch + "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\n" + "nop; mov rf30, 9\n"
    code += "nop; mov tmud, rf30\nnop; nop; thrsw\nnop; mov tmua, rf10\nnop; nop\n"
    code += "nop; mov tmud, 1\nnop; mov tmua, rf10\n"  # never
    outcome = dispatch(code, [DATA], flags=PROPAGATE_NAN)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [9] * 16
    assert outcome.instructions == 3 + 3 + 3 + 3 + 1 + 4
