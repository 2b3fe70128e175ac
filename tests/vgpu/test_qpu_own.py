# SPDX-License-Identifier: BSD-2-Clause
"""Words that a QPU thread writes for itself, as spilled registers: they decide only what is known to decide.

Runs of the same program with other input are the other opinion: where these access something else, the access map
says that they may.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.accesses.proof import _CHANGED
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_WRITTEN
from tests.support.qpu_bench import DATA, END, ONE_SECTION, Outcome, dispatch
from tests.support.qpu_programs import EPILOGUE, PROLOGUE, WORDS, deciding, inputs, plain
from tests.vgpu.test_qpu_decide import OUT, commands

# rf15: of this lane and thread; rf16: of this lane, in all threads. Both lie beyond what the epilogue stores.
OWN = """
nop; mov r1, 1
shl r1, r1, 12
add rf16, rf11, r1
tidx r0
shl r0, r0, 6
add rf15, rf16, r0
"""
SPILL, SPILL_SHARED = "nop; mov tmud, {}\nnop; mov tmua, rf15", "nop; mov tmud, {}\nnop; mov tmua, rf16"
FILL, FILL_SHARED = "nop; mov tmua, rf15\nnop; nop; ldtmu.rf25", "nop; mov tmua, rf16\nnop; nop; ldtmu.rf25"
USE = "and r0, rf25, 0\nadd r0, r0, rf10\nnop; mov tmua, r0\nnop; nop; ldtmu.rf24"
# The thread's number is asked, but the address is that of all threads, or of the one that runs the next workgroup.
SEEMS_OWN = "tidx r0\nand r0, r0, 0\nadd rf15, rf16, r0"
NEXT_ONES = "and r0, rf0, 1\nshl r0, r0, 2\ntidx r1\nsub r1, r1, r0\nshl r1, r1, 6\nadd rf15, rf16, r1"
OF_FIRST, OF_SECOND = "xor.pushz -, rf0, 0", "and r0, rf0, 15\nxor.pushz -, r0, 1"  # of each sixteen workgroups


def run(lines: str, words: np.ndarray, groups: int = 1) -> Outcome:
    """Run lines between prologue and epilogue, which store all that they compute."""
    uniforms = [DATA, OUT, 64, *[64] * 40]
    code = PROLOGUE + OWN + lines + "\n" + EPILOGUE + END
    outcome = dispatch(code, uniforms, words, groups=(groups, 1, 1), flags=ONE_SECTION, track=True)
    assert (outcome.error, outcome.fault) == ("", None)
    return outcome


def varies(outcome: Outcome) -> bool:
    """As host_tools/accesses/proof.py has it of a job."""
    return outcome.varies or bool((outcome.noted & _CHANGED == _CHANGED).any())


CASES = {
    "an address": ([SPILL.format("rf10"), FILL, "nop; mov tmua, rf25\nnop; nop; ldtmu.rf24"], False),
    "an address, twice": ([SPILL.format("rf10"), FILL, USE, SPILL.format("rf12"), FILL, USE], False),
    "what was loaded, and decides nothing": ([SPILL.format("rf20"), FILL, "nop; mov rf24, rf25"], False),
    "what was loaded, and decides": ([SPILL.format("rf20"), FILL, USE], True),
    "an address, and then what was loaded": ([SPILL.format("rf10"), SPILL.format("rf20"), FILL, USE], True),
    "what was filled, and spilled again": (  # it decides through memory only: nobody follows that
        [SPILL.format("rf10"), FILL, SPILL_SHARED.format("rf25"), FILL_SHARED, USE],
        True,
    ),
    "where others write": ([SPILL_SHARED.format("rf10"), FILL_SHARED, USE], True),
    "where others write, by a number that changes nothing": ([SEEMS_OWN, SPILL.format("rf10"), FILL, USE], True),
    "where another writes later": (
        [NEXT_ONES, OF_FIRST, SPILL.format("rf10"), "nop; mov.ifa tmua, rf15\nnop; nop; ldtmu.rf25", USE],
        True,
    ),
    "what the thread before has written": (
        [OF_FIRST, "nop; mov tmud, rf10\nnop; mov.ifa tmua, rf15", FILL, USE],
        True,
    ),
    "where others write that may run at the same time": (
        [
            OF_SECOND,
            "nop; mov tmud, rf10\nnop; mov.ifa tmua, rf16",
            "nop; mov.ifa tmua, rf16\nnop; nop; ldtmu.rf25",
            USE,
        ],
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_spilled(case: str) -> None:
    lines, expected = CASES[case]
    outcome = run("\n".join(lines), np.arange(1, WORDS + 1, dtype=np.uint32), groups=18)
    assert varies(outcome) == expected
    assert commands(outcome) == set()


def test_a_word_that_nobody_has_written_is_a_command() -> None:
    outcome = run(f"{FILL}\n{USE}", np.zeros(WORDS, np.uint32))
    assert (outcome.noted[0x11400:] & _CHANGED == _CHANGED & ~ACCESS_WRITTEN).any()


spills = st.builds(
    lambda spill, value: spill.format(value),
    st.sampled_from([SPILL, SPILL_SHARED]),
    st.sampled_from(["rf10", "rf12", "rf20", "rf21", "rf24", "rf25"]),
)
fills = st.sampled_from([FILL, FILL_SHARED, f"{FILL}\n{USE}", f"{FILL_SHARED}\n{USE}"])


@settings(max_examples=60)
@given(st.lists(spills | fills | plain() | deciding(), min_size=2, max_size=8).map("\n".join), inputs, inputs)
def test_other_data_lead_to_the_same_accesses(lines: str, words: np.ndarray, others: np.ndarray) -> None:
    first = run(lines, words, groups=2)
    if varies(first):
        return
    changed = others.copy()
    known = sorted(commands(first))
    changed[known] = words[known]
    second = run(lines, changed, groups=2)
    assert not ((second.noted ^ first.noted) & (ACCESS_READ | ACCESS_WRITTEN)).any()
