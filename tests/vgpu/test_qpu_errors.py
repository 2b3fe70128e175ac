# SPDX-License-Identifier: BSD-2-Clause
"""What the compute engine must not pass silently: code that it does not model, hangs, MMU faults."""

from __future__ import annotations

import pytest

from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import (
    BASE,
    CODE,
    DATA,
    END,
    FOUR_THREADS,
    LANE_ADDRESS,
    ONE_SECTION,
    PAGES,
    READ_ONLY,
    UNIFORMS,
    dispatch,
)

ERRORS = {
    "fadd tmus, r0, r1": "texture",
    "eidx r0\nnop; mov tmuc, r0": "TMU configuration with lanes that differ",
    "nop; mov.ifa tmuc, r0": "TMU configuration under a condition",
    "nop; nop; wrtmuc": "texture",
    "nop; nop; rot.1": "rotation of other than one source",
    "nop; add r0, r1, r2; rot.1": "rotation of other than one source",
    "add r0, r1, r2; nop; rot.3": "rotation of other than one source",
    "eidx r5; nop\nnop; nop\nnop; mov r0, r1; rot": "rotation by r5 with lanes that differ",
    "nop; nop; ucb": "not modelled",
    "nop; nop; ldvary.rf1": "no sense in a compute shader",
    "nop; nop; ldtlb.rf1": "no sense in a compute shader",
    "nop; mov tlb, r0": "not modelled",
    "nop; mov vpm, r0": "not modelled",
    "nop; mov sync, r0": "not modelled",
    "barrierid rf1": "barrierid",
    "nop; mov syncb, r0": "barrierid",
    "nop; mov r0, -1\nfaddnf r2, r0, r1": "faddnf with a NaN or a subnormal number",
    "nop; mov r1, 1\nfaddnf r2, r0, r1": "faddnf with a NaN or a subnormal number",
    "flpop r0, r1\nnop; mov.ifb r0, r1": "its flags, which are not known",
    "flpop r0, r1\nb.anya 0\nnop; nop\nnop; nop\nnop; nop": "its flags, which are not known",
    "flpop r0, r1\nxor.pushz r2, r1, r0\nvflb r0": "its flags, which are not known",
    "flpop.pushz r0, r1": "flags",
    "iid r0": "not modelled",
    "revf r0": "not modelled",
    "nop; multop r0, r1, r2": "used for its effect",
    "max.pushc r0, r1, r2": "carry",
    "vfmin.pushz r0, r1, r2": "flags",
    "b lri": "branch to 0x00000000, outside the shader",
    "bu 0, lri": "moved to the link register",
    "nop; mov tmuau, r0; ldunif": "two reads of the uniform stream",
    "nop; nop; ldtmu.r0": "no TMU result",
    "b -8000\nnop; nop\nnop; nop\nnop; nop": "outside the shader",
    "nop; mov tmud, r0\nnop; mov tmud, r0\nnop; mov tmua, r0": "TMU data words",
    "nop; mov tmua, 1": "no multiple",
    "nop; nop; thrsw\nnop; nop\nnop; nop; thrsw": "thrsw in the delay slots of the one that ends the thread",
    "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop; thrsw": "three thrsw in a row",
    "nop; nop; thrsw\nb 0": "branch in the delay slots of thrsw",
    "b 0\nb 0": "in the delay slots of a branch",
    "b -32\nnop; nop\nnop; nop\nnop; nop": "hang",
}


@pytest.mark.parametrize("lines", ERRORS)
def test_errors_name_the_instruction(lines: str) -> None:
    outcome = dispatch(lines + "\n" + END, [], flags=ONE_SECTION)
    assert ERRORS[lines] in outcome.error
    assert outcome.error.startswith(f"QPU instruction at 0x{CODE:08x}"[:-2])
    assert "(0x" in outcome.error
    assert outcome.fault is None


def test_reserved_word() -> None:
    outcome = dispatch(assemble("nop; nop") + bytes(8), [], flags=ONE_SECTION)
    assert outcome.error.startswith(f"QPU instruction at 0x{CODE + 8:08x} (0x0000000000000000): neither an ALU")


def test_code_after_the_end_does_not_count() -> None:
    assert dispatch(assemble(END) + bytes(8), [], flags=ONE_SECTION).error == ""


def test_tmu_fifo_of_a_thread_among_four_overflows() -> None:
    code = LANE_ADDRESS + "nop; mov tmua, rf10\n" * 5 + END
    assert dispatch(code, [DATA], flags=ONE_SECTION).error == ""
    assert "overflows its 4 entries" in dispatch(code, [DATA], flags=ONE_SECTION | FOUR_THREADS).error


def test_an_instruction_that_takes_a_result_makes_room_for_one() -> None:
    """Mesa puts the fifth access and the first ldtmu into one instruction, on a V3D 7.1."""
    code = LANE_ADDRESS + "nop; mov tmua, rf10\n" * 4 + "nop; mov tmua, rf10; ldtmu.rf11\n"
    assert dispatch(code + END, [DATA], flags=ONE_SECTION | FOUR_THREADS).error == ""
    more = code + "nop; mov tmua, rf10\n" + END
    assert "overflows its 4 entries" in dispatch(more, [DATA], flags=ONE_SECTION | FOUR_THREADS).error


END_OF_MEMORY = BASE + PAGES * 4096


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("nop; mov tmua, r5", (END_OF_MEMORY, False)),
        ("nop; mov tmud, r5\nnop; mov tmua, r5", (END_OF_MEMORY, True)),
        ("nop; mov unifa, r5\nnop; nop; ldunifa", (END_OF_MEMORY, False)),
        ("bu 0, a:unif\nnop; nop\nnop; nop\nnop; nop\nnop; nop; ldunif", (END_OF_MEMORY, False)),
    ],
)
def test_faults(lines: str, fault: tuple[int, bool], track: bool) -> None:
    uniforms = [END_OF_MEMORY, END_OF_MEMORY]
    outcome = dispatch("nop; nop; ldunif\n" + lines + "\n" + END, uniforms, flags=ONE_SECTION, track=track)
    assert outcome.fault == fault
    assert outcome.error == ""


def test_fault_on_a_read_only_page() -> None:
    va = BASE + READ_ONLY * 4096
    code = "nop; nop; ldunif\nnop; mov tmua, r5\nnop; nop; ldtmu.r0\nnop; mov tmud, r0\nnop; mov tmua, r5\n" + END
    assert dispatch(code, [va], flags=ONE_SECTION).fault == (va, True)


def test_code_that_runs_off_its_page() -> None:
    last = END_OF_MEMORY - 8
    outcome = dispatch("nop; nop", [], flags=ONE_SECTION, cfg={5: last | ONE_SECTION})
    assert outcome.error  # the last word there is zero: no instruction
    outcome = dispatch("nop; nop", [], cfg={5: END_OF_MEMORY | ONE_SECTION})
    assert outcome.fault == (END_OF_MEMORY, False)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("first", [7, 37])
@pytest.mark.parametrize("line", ["eidx r1", "tidx r1"])  # of which the second says who runs at once
def test_lowest_failing_workgroup_is_reported(line: str, first: int, threads: int) -> None:
    """Workgroups from `first` on fault, each at an address of its own, after some work."""
    code = f"""
        {line}; nop; ldunifrf.rf1              # first
        nop; nop; ldunifrf.rf2                 # outside
        nop; nop; ldunifrf.rf3                 # rounds
        sub.pushz rf3, rf3, 1
        b.na0 -40
        nop; nop
        nop; nop
        nop; nop
        sub.pushn -, rf0, rf1
        shl r0, rf0, 12
        add r0, r0, rf2
        nop; mov.ifna tmua, r0
    """
    outcome = dispatch(
        code + END, [first, END_OF_MEMORY, 3000], groups=(64, 1, 1), size=1, flags=ONE_SECTION, threads=threads
    )
    assert outcome.fault == (END_OF_MEMORY + first * 4096, False)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({0: 0}, "word 0 = 0x00000000: no workgroups"),
        ({3: 1 << 27 | 0x110}, "bits 31:27"),
        ({3: 0x1110}, "batches per supergroup"),
        ({6: UNIFORMS + 2}, "no multiple of 4"),
    ],
)
def test_bad_configuration(cfg: dict[int, int], message: str) -> None:
    assert message in dispatch(END, [], flags=ONE_SECTION, cfg=cfg).error


@pytest.mark.parametrize("threads", [1, 4])
def test_a_dispatch_that_runs_too_long(threads: int) -> None:
    """The limit is of all batches together; none of them runs long."""
    outcome = dispatch(END, [], groups=(0x8000, 0xFFFF, 1), flags=ONE_SECTION, threads=threads, limit=1 << 16)
    assert outcome.error == "hang: a dispatch ran more than 65536 instructions"


def test_the_limit_of_a_dispatch_is_exact() -> None:
    whole = dispatch(END, [], groups=(9, 1, 1), flags=ONE_SECTION).instructions
    assert dispatch(END, [], groups=(9, 1, 1), flags=ONE_SECTION, limit=whole).error == ""
    assert "hang" in dispatch(END, [], groups=(9, 1, 1), flags=ONE_SECTION, limit=whole - 1).error


def test_batches_that_wait_for_each_other_share_the_limit() -> None:
    wait, two = "nop; nop\n" * 2, "nop; nop; thrsw\n" * 2  # two switches announce the last section
    code = "barrierid syncb; nop; thrsw\n" + wait + two + wait + END
    whole = dispatch(code, [], size=64)
    assert whole.error == ""
    assert "hang: a dispatch" in dispatch(code, [], size=64, limit=whole.instructions - 1).error


def test_a_thread_that_hangs_is_named_though_its_dispatch_has_a_smaller_limit() -> None:
    code = "b -32\nnop; nop\nnop; nop\nnop; nop\n" + END
    outcome = dispatch(code, [], flags=ONE_SECTION, limit=1000)
    assert outcome.error.startswith(f"QPU instruction at 0x{CODE + 24:08x}")
    assert "hang: one thread ran more than 1000 instructions" in outcome.error
