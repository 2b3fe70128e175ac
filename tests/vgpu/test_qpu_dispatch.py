# SPDX-License-Identifier: BSD-2-Clause
"""Dispatches of the compute engine: workgroups, barriers, supergroups, scratch memory."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import (
    BASE,
    CODE,
    DATA,
    END,
    LANE_ADDRESS,
    ONE_SECTION,
    STORE_RF30,
    UNIFORMS,
    counted_items,
    dispatch,
)

# ---- dispatches ----


@pytest.mark.parametrize("per_supergroup", [1, 3, 16])
@pytest.mark.parametrize("size", [1, 5, 16, 64, 100, 256])
@pytest.mark.parametrize("threads", [1, 4])
def test_payload_and_workgroups(size: int, per_supergroup: int, threads: int) -> None:
    """Every item of every workgroup runs once and knows who it is."""
    groups = (3, 2, 2)
    bits = max(6, (size - 1).bit_length())
    # So a second run would show.
    code = counted_items(per_z=6)
    uniforms = [0xFFFF, 16, 32 - bits, size, DATA]
    outcome = dispatch(
        code + STORE_RF30 + END,
        uniforms,
        groups=groups,
        size=size,
        per_supergroup=per_supergroup,
        flags=ONE_SECTION,
        threads=threads,
    )
    assert (outcome.error, outcome.fault) == ("", None)
    total = size * 12
    np.testing.assert_array_equal(outcome.words(DATA, total), np.ones(total))
    assert not outcome.words(DATA + 4 * total, 16).any()


def test_workgroup_offsets() -> None:
    code = LANE_ADDRESS + "nop; mov tmud, rf0\nnop; mov tmua, rf10\n" + END
    outcome = dispatch(code, [DATA], flags=ONE_SECTION, cfg={0: 1 << 16 | 5, 1: 1 << 16 | 7})
    assert outcome.words(DATA, 16).tolist() == [7 << 16 | 5] * 16


BARRIER_SUM = """
    eidx r0; nop; ldunifrf.rf5                 # 26
    nop; nop; ldunifrf.rf9                     # DATA
    shr rf4, rf2, rf5
    shl r0, rf4, 2
    add rf10, r0, rf9
    add rf30, rf4, 1
    nop; mov tmud, rf30
    nop; mov tmua, rf10
    tmuwt -
    barrierid syncb; nop; thrsw
    nop; nop
    nop; nop
    nop; nop; ldunifrf.r1                      # 252
    sub r1, r1, r0                             # 63 - index
    shl r0, rf4, 2
    nop; nop; ldunif
    sub r1, r5, r0
    add r1, r1, rf9
    nop; mov tmua, r1
    nop; nop; ldtmu.rf31
    nop; nop; ldunifrf.r2
    add rf10, rf10, r2
    nop; mov tmud, rf31
    nop; mov tmua, rf10
    nop; nop; thrsw
    nop; nop; thrsw
    nop; nop
    nop; nop
    nop; nop
"""


def test_barrier() -> None:
    """Each item reads what the opposite item of another batch stored before the barrier."""
    outcome = dispatch(BARRIER_SUM + END, [26, DATA, 252, 252, 0x1000], size=64)
    assert (outcome.error, outcome.fault) == ("", None)
    np.testing.assert_array_equal(outcome.words(DATA + 0x1000, 64), np.arange(64, 0, -1))


def test_barrier_that_some_never_reach() -> None:
    code = """
        eidx -; nop; ldunif                    # 26
        shr.pushz -, rf2, r5
        b.a0 24                                # the batch with item 0 skips the barrier
        nop; nop
        nop; nop
        nop; nop
        barrierid syncb; nop; thrsw
        nop; nop
        nop; nop
        nop; nop; thrsw
        nop; nop; thrsw
        nop; nop
    """
    outcome = dispatch(code + END, [26], size=32)
    assert "hang" in outcome.error
    assert "barrier" in outcome.error


@pytest.mark.parametrize("groups", [1, 2])
def test_thread_index_is_distinct_among_batches_that_run_together(groups: int) -> None:
    """Sixteen take two threads of each of the eight QPUs, of which the second is number 2; 32 take all."""
    code = """
        tidx rf30; nop; ldunifrf.r1            # DATA
        shl r0, rf30, 2
        add rf10, r0, r1
        nop; mov tmud, 1
        nop; mov tmua, rf10
        barrierid syncb; nop; thrsw
        nop; nop
        nop; nop
        nop; nop; thrsw
        nop; nop; thrsw
        nop; nop
    """
    outcome = dispatch(code + END, [DATA], size=256, groups=(groups, 1, 1), per_supergroup=groups)
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.words(DATA, 34).tolist() == [1, groups - 1] * 16 + [0] * 2


def test_supergroups_with_shared_memory_do_not_overlap() -> None:
    """Each workgroup uses the same words as scratch: with four workers the result must be the same."""
    code = (
        """
        nop; nop; ldunifrf.rf5                 # 16
        nop; nop; ldunifrf.rf6                 # DATA
        nop; nop; ldunifrf.rf7                 # repetitions
        shr r0, rf2, rf5                       # workgroup in memory (and more): marks the shader
        eidx r0
        shl r0, r0, 2
        add rf10, r0, rf6
        nop; mov tmua, rf10                    # loop: scratch += 1
        nop; nop; ldtmu.r0
        add rf30, r0, 1
        nop; mov tmud, rf30
        nop; mov tmua, rf10
        sub.pushz rf7, rf7, 1
        b.na0 -80
        nop; nop
        nop; nop
        nop; nop
        """
        + END
    )
    for threads in (1, 4):
        outcome = dispatch(code, [16, DATA, 2000], groups=(40, 1, 1), flags=ONE_SECTION, threads=threads)
        assert (outcome.error, outcome.fault) == ("", None)
        assert outcome.words(DATA, 16).tolist() == [80000] * 16


SCRATCH = """
    tidx r0; nop; ldunifrf.rf5                 # DATA
    nop; nop; ldunifrf.rf6                     # log2 of the bytes of a thread
    shl r0, r0, rf6
    add r0, r0, rf5
    eidx r1
    shl r1, r1, 2
    add rf10, r0, r1
    nop; mov tmua, rf10                        # scratch += 1
    nop; nop; ldtmu.r0
    add rf30, r0, 1
    nop; mov tmud, rf30
    nop; mov tmua, rf10
"""


@pytest.mark.parametrize("per_supergroup", [1, 3, 4, 16])
@pytest.mark.parametrize("threads", [1, 4])
def test_scratch_memory_is_one_threads_at_a_time(per_supergroup: int, threads: int) -> None:
    """Each batch adds 2000 to the words of its thread; with several workers none is lost."""
    code = SCRATCH.replace(
        "nop; mov tmua, rf10                        # scratch += 1", "nop; mov rf9, rf20\nnop; mov tmua, rf10"
    )
    code = "nop; nop; ldunifrf.rf20                # repetitions\n" + code
    code += "sub.pushz rf9, rf9, 1\nb.na0 -80\nnop; nop\nnop; nop\nnop; nop\n"
    groups = 150
    outcome = dispatch(
        code + END, [2000, DATA, 6], groups=(groups, 1, 1), size=16, per_supergroup=per_supergroup,
        flags=ONE_SECTION, threads=threads,
    )  # fmt: skip
    assert (outcome.error, outcome.fault) == ("", None)
    expected = np.zeros(32)
    for batch in range(groups):
        turn = batch % 16  # of QPUs with two threads, which are 0 and 2
        expected[turn % 8 * 4 + turn // 8 * 2] += 2000
    words = outcome.words(DATA, 32 * 16).reshape(32, 16)
    np.testing.assert_array_equal(words, np.repeat(expected[:, None], 16, axis=1))


def test_tracking_notes_the_scratch_memory_of_all_threads() -> None:
    """The model gives batches to QPUs in turn; a chip to any that is free. What is rehearsed leaves nothing."""
    outcome = dispatch(SCRATCH + END, [DATA, 6], flags=ONE_SECTION, groups=(3, 1, 1), track=True)
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.words(DATA, 32 * 16).reshape(32, 16).tolist() == [[n in (0, 4, 8)] * 16 for n in range(32)]
    scratch = outcome.noted[DATA - BASE :]
    assert (scratch[: 32 * 64] == ACCESS_READ | ACCESS_READ_FIRST | ACCESS_WRITTEN).all()
    assert not scratch[32 * 64 :].any()


def test_tracking_finds_scratch_memory_that_is_not_mapped() -> None:
    """On a chip it would depend on the thread whether the dispatch ends."""
    code, uniforms = SCRATCH + END, [DATA, 31]
    outcome = dispatch(code, uniforms, flags=ONE_SECTION, track=True)
    assert outcome.fault is not None
    assert dispatch(code, uniforms, flags=ONE_SECTION).fault is None


def test_tracking_notes_every_byte() -> None:
    code = LANE_ADDRESS + "nop; mov tmua, rf10\nnop; nop; ldtmu.rf30\n" + STORE_RF30 + END
    outcome = dispatch(code, [DATA], flags=ONE_SECTION, track=True)
    expected = np.zeros_like(outcome.noted)
    for start, size in ((CODE, len(assemble(code))), (UNIFORMS, 4), (DATA, 64)):
        expected[start - BASE :][:size] = ACCESS_READ | ACCESS_READ_FIRST | ACCESS_COMMAND * (start != DATA)
    expected[DATA - BASE :][:64] |= ACCESS_WRITTEN
    np.testing.assert_array_equal(outcome.noted, expected)
    page = (DATA - BASE) // 4096
    assert outcome.touched[[0, (UNIFORMS - BASE) // 4096, page]].tolist() == [1, 1, 3]
    assert np.count_nonzero(outcome.touched) == 3
