# SPDX-License-Identifier: BSD-2-Clause
"""Words that decide what a QPU program accesses are marked as commands in the access map, and no others.

Runs of the same program with one word changed are the other opinion: where that changes an access, it is marked.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ, ACCESS_WRITTEN
from tests.support.qpu_bench import BASE, DATA, END, ONE_SECTION, Outcome, dispatch
from tests.support.qpu_programs import EPILOGUE, PROLOGUE, WORDS, deciding, inputs, plain

OUT = DATA + 0x400
LANES, OTHERS = range(16), range(16, 32)  # words of the input: those that rf20 has, those that rf21 has
DELAY = "nop; nop\nnop; nop\nnop; nop"
STORE = "nop; mov tmud, 1\nnop; mov.ifa tmua, rf11"
UNIFA = f"nop; mov unifa, {{}}\n{DELAY}\nnop; nop; ldunifarf.rf24"


def run(lines: str, words: np.ndarray) -> Outcome:
    """Run lines between prologue and epilogue, which store all that they compute."""
    uniforms = [DATA, OUT, 64, *[64] * 40]
    outcome = dispatch(PROLOGUE + lines + "\n" + EPILOGUE + END, uniforms, words, flags=ONE_SECTION, track=True)
    assert (outcome.error, outcome.fault) == ("", None)
    return outcome


def commands(outcome: Outcome) -> set[int]:
    """Words of the input that are marked."""
    return set((np.flatnonzero(outcome.noted[DATA - BASE :][: 4 * WORDS] & ACCESS_COMMAND) // 4).tolist())


LOAD_AT_R0 = "and r0, r0, 0\nadd r0, r0, rf10\nnop; mov tmua, r0\nnop; nop; ldtmu.rf25"
CASES = {
    "moved": ("nop; mov rf25, rf20", ()),
    "computed with": ("fadd rf25, rf20, rf21; fmul rf24, rf20, rf21", ()),
    "address": ("and r0, rf21, 0\nadd r0, r0, rf10\nnop; mov tmua, r0\nnop; nop; ldtmu.rf25", OTHERS),
    "address that was overwritten": ("nop; mov r0, rf20\nnop; mov r0, rf10\nnop; mov tmua, r0; ldtmu.rf25", ()),
    "half of an address": ("nop; mov r0, rf10\nnop; fmov r0.h, rf20\nand r0, r0, 0\nnop; mov tmua, rf10", ()),
    "address in part": (
        "nop; mov r0, 0\nnop; fmov r0.h, rf20\nand r0, r0, 0\nadd r0, r0, rf10\n"
        "nop; mov tmua, r0\nnop; nop; ldtmu.rf25",
        LANES,
    ),
    "condition of a result": ("add.pushz -, rf20, 1\nnop; mov.ifa rf25, 1", ()),
    "condition of an address": (
        "add.pushz -, rf20, 1\nnop; mov r0, rf10\nnop; mov.ifa r0, rf12\nnop; mov tmua, r0\nnop; nop; ldtmu.rf25",
        LANES,
    ),
    "condition of an access": (f"add.pushz -, rf20, 1\n{STORE}", LANES),
    "flags combined": (f"add.pushz -, rf20, 1\nadd.andz -, rf21, 1\n{STORE}", (*LANES, *OTHERS)),
    "flags pushed over": (f"add.pushz -, rf20, 1\nadd.pushz -, rf22, 1\n{STORE}", ()),
    "configuration of an access": ("and r0, rf20, 0\nnot tmuc, r0", LANES),
    "difference": (f"fcmp r0, rf20, rf21\n{LOAD_AT_R0}", (*LANES, *OTHERS)),
    "difference that goes nowhere": (f"nop; mov r0, 0\nfcmp -, rf20, rf21\n{LOAD_AT_R0}", ()),
    "flag A as halves": (f"add.pushz -, rf20, 1\nvflna r0\n{LOAD_AT_R0}", LANES),
    "flag B as bits": (
        f"add.pushz -, rf20, 1\nadd.pushz -, rf22, 1\nflbpush r0, rf21\n{LOAD_AT_R0}",
        (*LANES, *OTHERS),
    ),
    "lanes": ("setmsf -, rf20\nsetmsf -, rf24", LANES),
    "branch": (f"add.pushz -, rf21, 1\nb.anya 0\n{DELAY}", OTHERS),
    "branch by constants": (f"nop; mov rf25, rf20\nxor.pushz -, rf23, 3\nb.anya 0\n{DELAY}", ()),
    "second stream, moved": (UNIFA.format("rf12") + "\nnop; mov rf25, rf24", ()),
    "second stream, address": (
        UNIFA.format("rf12") + "\nand r0, rf24, 0\nadd r0, r0, rf10\nnop; mov tmua, r0\nnop; nop; ldtmu.rf25",
        (0,),
    ),
    "where the second stream is": ("and r0, rf20, 0\nadd r0, r0, rf12\n" + UNIFA.format("r0"), LANES),
    "product in two steps": (
        "nop; multop -, rf20, rf22\nnop; umul24 r0, rf22, rf22\nand r0, r0, 0\nadd r0, r0, rf10\n"
        "nop; mov tmua, r0\nnop; nop; ldtmu.rf25",
        LANES,
    ),
    # r0 is an address in the first round, and what was loaded from there in the next one.
    "loop": (
        "nop; mov r0, rf10\nnop; mov r1, 3\nand r2, r0, 0\nadd r2, r2, rf10\nnop; mov tmua, r2\n"
        "nop; nop; ldtmu.r0\n"
        f"add.pushn r1, r1, -1\nb.anyna -72\n{DELAY}",
        LANES,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_words_that_decide(case: str) -> None:
    lines, expected = CASES[case]
    outcome = run(lines, np.arange(1, WORDS + 1, dtype=np.uint32))
    assert commands(outcome) == set(expected)
    assert not outcome.varies


def test_a_branch_to_a_register_may_go_anywhere() -> None:
    lines = f"nop; mov rf24, 0\nxor.pushz -, rf23, rf23\nb.anyna rf24\n{DELAY}"
    assert run(lines, np.zeros(WORDS, np.uint32)).varies


@settings(max_examples=40)
@given(st.lists(plain() | deciding(), min_size=1, max_size=8).map("\n".join), inputs, inputs)
def test_a_word_that_changes_an_access_is_marked(lines: str, words: np.ndarray, others: np.ndarray) -> None:
    first = run(lines, words)
    kinds = ACCESS_READ | ACCESS_WRITTEN
    for i in range(WORDS):
        changed = words.copy()
        changed[i] = others[i] if others[i] != words[i] else ~words[i]
        if ((run(lines, changed).noted ^ first.noted) & kinds).any():
            assert i in commands(first)
