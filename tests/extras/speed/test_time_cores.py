# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone speed time --cores --variant`: what the choice that is best on all cores costs on some of them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from host_tools.accesses.job_work import JobWork
from host_tools.commands.framework import UsageError
from host_tools.extras.speed.commands.time_cores import Variant, counts, on_cores
from host_tools.model.timing import TimingError, chip_of
from host_tools.vgpu.binding import Dispatch
from trace_format.actions import ALL_BITS, Action, Op, action, array_of
from trace_format.profile import load
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

NOTHING = Dispatch(**{field.name: 0 for field in fields(Dispatch)})
CHIP = chip_of("mali_g71")
GPU = load("mali_g71")


def one_job() -> Trace:
    """A trace of one job, as far as its order goes."""

    def write(name: str, value: int) -> Action:
        return action(Op.REG_WRITE, register=GPU.register(name).index, value=value, mask=ALL_BITS)

    rows = [action(Op.JOB, number=0), write("js1.COMMAND_NEXT", 1), write("job.IRQ_CLEAR", 2)]
    return Trace(gpu=GPU.name, actions=array_of(rows), image=b"", carveout_bytes=PAGE_BYTES, va_bytes=PAGE_BYTES)


def variant(name: str, workgroups: int, lines: int, cores: int = 0) -> Variant:
    job = JobWork(0, False, 0, [replace(NOTHING, workgroups=workgroups, loaded_lines=lines)], cores=cores)
    return Variant(name, one_job(), [job])


def test_regret() -> None:
    """Few workgroups lose on eight cores, and have lost less where there are few."""
    wide, narrow = variant("wide", 800, 400_000), variant("narrow", 4, 450_000)
    rows, lines = on_cores([wide, narrow], CHIP, [4, 2])
    assert [(row.cores, row.fastest) for row in rows] == [(8, "wide"), (4, "narrow"), (2, "narrow")]
    for row in rows:
        first, second = (replay.us for replay in row.replays)
        assert row.regret == pytest.approx(first / min(first, second) - 1)
    assert rows[0].regret == 0
    assert rows[1].regret is not None
    assert rows[1].regret > 0.2
    assert [row.replays[1].times for row in rows][:2] == [1, 1]  # four workgroups lose nothing on four cores
    assert len(lines) == 7
    assert f"{100 * rows[1].regret:.1f} %" in lines[3]


def test_one_trace_has_no_regret() -> None:
    rows, _ = on_cores([variant("only", 8, 1000)], CHIP, [2])
    assert [row.regret for row in rows] == [None, None]


def test_what_is_refused() -> None:
    with pytest.raises(TimingError, match="hikey960 has 8 cores"):
        on_cores([variant("only", 8, 1000)], CHIP, [16])
    with pytest.raises(TimingError, match="only: its jobs run on some of the cores already"):
        on_cores([variant("only", 8, 1000, cores=4)], CHIP, [2])
    for text in ("", "0", "2,", "two", "-1", "2.5"):
        with pytest.raises(UsageError, match="--cores: expected numbers of cores"):
            counts(text)
    assert counts("2,4,2") == [4, 2]
