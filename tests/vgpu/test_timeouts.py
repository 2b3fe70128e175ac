# SPDX-License-Identifier: BSD-2-Clause
"""The pass `timeouts`: waits for jobs end after a multiple of what these are estimated to take at worst."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from host_tools.accesses.job_work import JobWork, job_work
from host_tools.accesses.observe import FIRST_SEED, random_inputs
from host_tools.audit.lint import lint
from host_tools.demo import RAW
from host_tools.families.conversion import IRQ_TIMEOUT_US
from host_tools.model.timing import chips, estimate
from host_tools.passes import timeouts
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from host_tools.vgpu.binding import Dispatch
from tests.support import chips as no_chip
from tests.support.places import CHECKOUT
from trace_format.actions import Op, actions_of
from trace_format.trace import Trace

RECORDINGS = (RAW, *(CHECKOUT / f"tests/support/lenet.{gpu}.raw.gtr" for gpu in ("v3d71", "mali_g71")))
CHIPS = {"v3d42": "pi4", "v3d71": "pi5", "mali_g71": "hikey960"}


def waits(trace: Trace) -> list[int]:
    return [row.timeout_us for row in actions_of(trace.actions) if row.op == Op.WAIT_IRQ]


@pytest.mark.parametrize("raw", RECORDINGS, ids=lambda path: path.name)
def test_waits_of_a_network(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the floor, each is the margin times its own job's and the one's before; with it, the floor."""
    recorded = build(Trace.read(raw), timeout_margin=None)
    assert set(waits(recorded)) == {IRQ_TIMEOUT_US}
    assert set(waits(build(Trace.read(raw)))) == {timeouts.FLOOR_US}
    monkeypatch.setattr(timeouts, "FLOOR_US", 1)
    found = waits(build(Trace.read(raw), timeout_margin=20))
    chip = chips()[CHIPS[recorded.gpu]]
    work = job_work(recorded, random_inputs(recorded, FIRST_SEED))
    high = [estimate(job.dispatches, chip).high_us for job in work]
    expected = [20 * (one + before) for one, before in zip(high, [0.0, *high], strict=False)]
    assert found == [pytest.approx(us, abs=1) for us in expected]


@functools.cache
def lenet() -> tuple[Trace, Trace]:
    """With the recorded timeouts, and with those that `build` sets."""
    return build(Trace.read(RAW), timeout_margin=None), build(Trace.read(RAW))


def test_nothing_else_changes() -> None:
    recorded, found = lenet()
    assert bytes(found.image) == bytes(recorded.image)
    assert len(found.actions) == len(recorded.actions)
    changed = {
        (one.op, other.op)
        for one, other in zip(actions_of(recorded.actions), actions_of(found.actions), strict=True)
        if one != other
    }
    assert changed == {(Op.WAIT_IRQ, Op.WAIT_IRQ)}


def test_the_rule_on_budgets_finds_nothing_any_more() -> None:
    """GR501: the recorded timeouts of LeNet add up to more than the budget."""
    recorded, found = lenet()
    assert [finding.rule.id for finding in lint(recorded)] == ["GR501"]
    assert [finding.rule.id for finding in lint(found)] == []


def test_gpus_without_constants_and_masks_keep_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the pass says why."""
    mali = build(Trace.read(RECORDINGS[2]), timeout_margin=None)
    other = Program(mali.with_(gpu=no_chip.GPU))
    no_chip.forget(monkeypatch)
    other.timeout_margin = 10
    assert no_chip.REFUSED in timeouts.set_timeouts(other)
    assert set(waits(other.trace())) == {IRQ_TIMEOUT_US}


def test_jobs_that_cannot_be_run_keep_what_was_recorded() -> None:
    """The pass says why, and `build` goes on: it need not run them."""
    raw = build(Trace.read(RAW), timeout_margin=None)
    broken = Program(raw.with_(image=bytes(len(raw.image))))
    broken.timeout_margin = 10
    assert timeouts.set_timeouts(broken).startswith("its jobs cannot be counted: action ")
    assert set(waits(broken.trace())) == {IRQ_TIMEOUT_US}


ROW = Dispatch(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def job(number: int, instructions: int, *, waits: list[int], lists: int = 0) -> JobWork:
    row = Dispatch(**{**ROW.__dict__, "instructions": instructions, "groups": 8})
    return JobWork(number, False, lists, [row], 0, waits)


def test_what_a_wait_is_for() -> None:
    """Jobs that nobody waited for count for the next wait; lists are not known, nor what follows them."""
    chip = chips()["pi4"]

    def high(instructions: int) -> float:
        return estimate(job(0, instructions, waits=[]).dispatches, chip).high_us

    small, large = high(1000), high(10**8)
    assert large > 100 * small
    rows = [job(0, 10**8, waits=[]), job(1, 1000, waits=[5]), job(2, 1000, waits=[7, 8]), job(3, 1000, waits=[9])]
    found = list(timeouts._worst(rows, chip))
    assert [at for at, _ in found] == [5, 7, 8, 9]
    assert found[0][1] >= large + small
    assert found[1][1] == found[2][1] == pytest.approx(2 * small)
    behind = [job(0, 1000, waits=[], lists=1), job(1, 1000, waits=[3]), job(2, 1000, waits=[4])]
    assert [at for at, _ in timeouts._worst(behind, chip)] == [4]


def test_a_long_job_keeps_what_was_recorded_unless_it_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(build(Trace.read(RAW), timeout_margin=None))
    for worst, expected in ((1.0, 100_000), (30_000.0, 300_000), (1e6, 5_000_000), (3e6, 6_000_000)):
        monkeypatch.setattr(timeouts, "_worst", lambda jobs, chip, us=worst: [(jobs[0].waits[0], us)])
        tried = Program(program.trace())
        tried.timeout_margin = 10
        assert timeouts.set_timeouts(tried) == ""
        assert waits(tried.trace())[0] == expected


def test_the_time_budget_has_room_for_each_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """GR501 has nothing to say of long jobs either; ten minutes are the most that a device takes."""
    recorded = build(Trace.read(RAW), timeout_margin=None)
    before = recorded.meta["time_budget_us"]
    assert build(Trace.read(RAW)).meta["time_budget_us"] == before == 60_000_000
    fresh = Trace.read(RAW)  # as `record` has it: a manifest that nobody has filled yet
    assert build(fresh.with_(meta={k: v for k, v in fresh.meta.items() if k != "time_budget_us"}), trust_note=True)
    for worst, expected in ((2e6, range(61_000_000, 600_000_000)), (1e9, [600_000_000])):
        monkeypatch.setattr(timeouts, "_worst", lambda jobs, chip, us=worst: [(job.waits[0], us) for job in jobs])
        tried = Program(recorded)
        tried.timeout_margin = 10
        assert timeouts.set_timeouts(tried) == ""
        found = tried.trace()
        assert found.meta["time_budget_us"] in expected
        assert found.meta["time_budget_us"] % 1_000_000 == 0
        assert [finding.rule.id for finding in lint(found)] == (["GR501"] if worst == 1e9 else [])
