# SPDX-License-Identifier: BSD-2-Clause
"""Replays that go on at the job where they stopped: after others had the GPU, and after a fault."""

from __future__ import annotations

import functools
import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.accesses.repeated import why_not_repeated
from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.lint import lint
from host_tools.cli import main
from host_tools.extras.sharing import joining
from host_tools.gpus.v3d.copies import settle
from host_tools.model.checkpoints import says_resume, steps_of, unmarked, why_not_resumed
from host_tools.passes.checkpoint_report import Marked
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import VirtualGpu
from tests.support import replayer_samples as s
from tests.support.json_schemas import check
from tests.support.mali_shares import at_once
from tests.vgpu.test_joined import FOUR, PAIR, RECORDINGS, Running, expected, inputs, running, single
from tests.vgpu.test_state import BATCHES, FIRST, kept
from tests.vgpu.test_steps import steps
from trace_format import profile
from trace_format.actions import ALL_BITS, FLAG_REPEAT, Action, Op, action, actions_of, array_of
from trace_format.trace import Trace

NAMES = ("lenet", "detector", "lenet-7.1", "lenet-mali")
ZEROED = ("hub.MMU_PT_PA_BASE", "hub.MMU_CTL", "core0.CSD_QUEUED_CFG5", "as0.TRANSTAB_LO", "as0.TRANSTAB_HI")
FILLED = ("hub.INT_MSK_SET", "core0.INT_MSK_SET", "job.IRQ_MASK", "mmu.IRQ_MASK", "gpu.SHADER_PWROFF_LO")


@functools.cache
def marked(name: str) -> Trace:
    """As `single`, with what it says of checkpoints."""
    trace = build(Trace.read(RECORDINGS[name.removesuffix("-2")]), trust_note=True, asked={"checkpoints": True})
    return trace.with_(meta={**trace.meta, "name": name})


@functools.cache
def both(names: Sequence[str]) -> Trace:
    """Several of them as one."""
    made: Trace = joining.joint([joining.Joining(name, marked(name)) for name in names], "joint").trace
    return made


@contextmanager
def alone(trace: Trace) -> Iterator[Running]:
    """A device whose replayer takes traces of one network only."""
    memory = mmap.mmap(-1, trace.carveout_bytes + (8 << 20))
    with VirtualGpu(trace.gpu, {s.CARVEOUT_PHYS: memory}) as gpu:
        yield Running(trace, gpu, memory, True, networks=0)


def give_away(device: Running) -> None:
    """Others have the GPU, and leave what they like in its registers."""
    device.replayer.give_away()
    gpu = profile.load(device.trace.gpu)
    for name in (*ZEROED, *FILLED):
        if register := gpu.registers.get(name):
            device.gpu.write32(register.offset, register.bits if name in FILLED else 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_is_given_away_at_each_job(name: str) -> None:
    """And the memory that the replay goes on with is as it was; without the claim it begins again."""
    for trace, is_marked in ((marked(name), True), (single(name), False)):
        assert says_resume(trace) == is_marked
        with running(trace, steps=True) as device:
            for seed in range(2):
                device.give(0, inputs(trace, seed))
                count = len(steps_of(trace))
                taken = 0
                while device.replayer.step():
                    taken += 1
                    if is_marked or taken < 3:
                        before = bytes(device.memory)
                        give_away(device)
                        assert bytes(device.memory) == before
                assert taken == (count - 1 if is_marked else count + 1)
                assert device.replayer.report.retries == 0
                assert device.outputs(0) == expected(name, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_replayer_of_one_network(name: str) -> None:
    """It has its state elsewhere, and a Mali's driver takes page tables as it needs them."""
    with alone(marked(name)) as device:
        for seed in range(2):
            device.give(0, inputs(marked(name), seed))
            taken = 1
            while device.replayer.step():
                taken += 1
                give_away(device)
            assert taken == len(steps_of(marked(name)))
            assert device.replayer.report.retries == 0
            assert device.outputs(0) == expected(name, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("names", [PAIR, FOUR, ("lenet-mali", "lenet-mali-2")], ids=["2", "4", "mali"])
def test_given_away_between_steps_of_several_networks(names: Sequence[str]) -> None:
    """In random order; on a Mali, where each change of networks resets the GPU, they go on, too."""
    random = np.random.default_rng(5)
    with running(both(names), steps=True) as device:
        done = [0] * len(names)
        taken = 0
        for network, name in enumerate(names):
            device.give(network, inputs(marked(name), 0))
        while min(done) < 2:
            network = int(random.integers(len(names)))
            device.replayer.select(network)
            taken += 1
            if not device.replayer.step():
                assert device.replayer.report.retries == 0
                assert device.outputs(network) == expected(names[network], done[network] % 3)
                done[network] += 1
                device.give(network, inputs(marked(names[network]), done[network] % 3))
            if random.integers(4) == 0:
                give_away(device)
        most = sum((count + 1) * len(steps_of(marked(name))) for count, name in zip(done, names, strict=True))
        assert taken <= most  # nothing was done twice


def test_a_stopped_replay_of_a_mali_lets_others_go_first() -> None:
    """With a queue: it is not begun again for that."""
    names = ("lenet-mali", "lenet-mali-2")
    with running(both(names), schedule=4) as device:
        for network, name in enumerate(names):
            device.give(network, inputs(marked(name), network))
        slow = device.replayer.submit(0, 1 << 40)
        for _ in range(5):
            assert not device.replayer.schedule_step()
        fast = device.replayer.submit(1, 1 << 39)
        order = []
        calls = 0
        while device.replayer.requests:
            calls += 1
            if over := device.replayer.schedule_step():
                order.append(over)
        assert order == [fast, slow]
        count = len(steps_of(marked(names[0])))
        assert calls == 2 * count - 5
        for network, name in enumerate(names):
            assert device.outputs(network) == expected(name, network)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("at", range(14))
def test_a_fault_repeats_one_step(at: int) -> None:
    """Where the job says that it can be; otherwise the replay begins again. The outputs are the same."""
    trace = marked("lenet")
    repeats = [bool(row.flags & FLAG_REPEAT) for row in actions_of(trace.actions) if row.op == Op.JOB]
    assert 0 < sum(repeats) < len(repeats)
    with running(trace, steps=True) as device:
        device.give(0, inputs(trace, 1))
        steps(device)
        actions = device.replayer.report.actions
    with running(trace, steps=True, fault_job=at + 1) as device:
        device.give(0, inputs(trace, 1))
        taken = steps(device)
        report = device.replayer.report
        assert (report.retries, report.jobs) == (1, 14)
        assert device.outputs(0) == expected("lenet", 1)
        assert taken == (15 if repeats[at] else 14 + at + 1)
        if repeats[at]:  # set-up and a step, at most
            assert report.actions < actions + len(trace.actions) // 2


def test_others_go_on_after_a_fault() -> None:
    """Their memory is out of reach of the network that has faulted."""
    with running(both(PAIR), steps=True, fault_job=4) as device:
        for network, name in enumerate(PAIR):
            device.give(network, inputs(marked(name), 0))
        steps(device, 2)
        device.replayer.select(1)
        steps(device)
        assert device.replayer.report.retries == 1
        assert device.outputs(1) == expected("detector", 0)
        device.replayer.select(0)
        assert steps(device) == 14 - 2
        assert device.replayer.report.retries == 0
        assert device.outputs(0) == expected("lenet", 0)


def test_state_outlasts_others_turns() -> None:
    """A prologue would set it to its first value."""
    trace = kept(True)
    clears = writes(trace, "core0.INT_CLR")
    clean = settle(trace.profile)
    rows = [one for row in actions_of(trace.actions) for one in (row, *(clean if clears(row) else ()))]
    trace = trace.with_(actions=array_of(rows))  # as a recording has it
    marked_trace = build(trace, asked={"checkpoints": True})
    for each, is_marked in ((marked_trace, True), (trace, False)):
        with running(each, steps=True) as device:
            total = np.zeros_like(FIRST)
            for batch in BATCHES:
                total = total + batch if is_marked else batch
                (index,) = [i for i, slot in enumerate(each.slots) if slot.name == "x"]
                device.buffers[index][...] = batch
                steps(device)
                give_away(device)
                assert np.array_equal(np.frombuffer(device.outputs(0)["double"], np.int32), 2 * total)


def changed(trace: Trace, where: Callable[[Action], bool], new: Callable[[Action], Sequence[Action]]) -> Trace:
    """The last action of a kind is others."""
    rows = list(actions_of(trace.actions))
    at = max(index for index, row in enumerate(rows) if where(row))
    return trace.with_(actions=array_of([*rows[:at], *new(rows[at]), *rows[at + 1 :]]))


def writes(trace: Trace, name: str) -> Callable[[Action], bool]:
    index = trace.profile.register(name).index
    return lambda row: row.op == Op.REG_WRITE and row.register == index


def written(trace: Trace, name: str, value: int) -> Action:
    return action(Op.REG_WRITE, register=trace.profile.register(name).index, value=value, mask=ALL_BITS)


def _before_last_job(trace: Trace, *more: Action) -> Trace:
    return changed(trace, lambda row: row.op == Op.JOB, lambda row: [*more, row])


def _without(trace: Trace, name: str) -> Trace:
    return changed(trace, writes(trace, name), lambda row: [])


def _moved_table(trace: Trace) -> Trace:
    return _before_last_job(trace, action(Op.SET_GPU_PGTABLE, address_space=0))


def _mask(trace: Trace) -> Trace:
    """Of interrupts, after the first job."""
    jobs = [index for index, row in enumerate(actions_of(trace.actions)) if row.op == Op.JOB]
    rows = list(actions_of(trace.actions))
    name = "hub.INT_MSK_SET" if "v3d" in trace.gpu else "job.IRQ_MASK"
    rows.insert(jobs[1] - 10 if "v3d" in trace.gpu else jobs[1], written(trace, name, 1))
    return trace.with_(actions=array_of(rows))


def _kept_early(trace: Trace) -> Trace:
    return changed(trace, lambda row: row.op == Op.REG_READ_KEEP, lambda row: [])


def _without_end_flush(trace: Trace) -> Trace:
    rows = list(actions_of(trace.actions))
    is_config = writes(trace, "js1.CONFIG_NEXT")
    at = next(index for index, row in enumerate(rows) if is_config(row))
    rows[at] = rows[at].with_(value=rows[at].value & ~0x3000)
    return trace.with_(actions=array_of(rows))


def _never_cleaned(trace: Trace) -> Trace:
    rows = [row for row in actions_of(trace.actions) if not (row.op == Op.REG_WRITE and row.value == 0x5)]
    return trace.with_(actions=array_of(rows))


def _no_start(trace: Trace) -> Trace:
    return changed(trace, lambda row: row.op == Op.REPLAY_START, lambda row: [])


FALSE = {
    "no ReplayStart": ("lenet", _no_start, "it has no jobs after a ReplayStart"),
    "a page table late": ("lenet", _moved_table, "sets a page table"),
    "a mask that a job changes": (
        "lenet",
        _mask,
        "after job 1 of a replay hub.INT_MSK_SET is not what",
    ),
    "a register of the job before": (
        "lenet",
        lambda trace: _without(trace, "core0.CSD_QUEUED_CFG4"),
        "job 14 of a replay finds in core0.CSD_QUEUED_CFG4 what an earlier one has written",
    ),
    "caches that are not cleaned": ("lenet", _never_cleaned, "may be in caches at the next replay checkpoint"),
    "Mali: a mask that a job changes": ("lenet-mali", _mask, "job.IRQ_MASK is not what the prologue"),
    "Mali: caches that are not cleaned": (
        "lenet-mali",
        _without_end_flush,
        "job 1 of a replay writes may be",
    ),
    "Mali: a value kept earlier": (
        "lenet-mali",
        _kept_early,
        "a value that was kept before the replay checkpoint",
    ),
    "Mali: a reset on the way": (
        "lenet-mali",
        lambda trace: _before_last_job(trace, written(trace, "gpu.COMMAND", 1)),
        "is not what the prologue's start has made it",
    ),
    "Mali: a register of the job before": (
        "lenet-mali",
        lambda trace: _without(trace, "js1.AFFINITY_NEXT_LO"),
        "job 14 of a replay finds in js1.AFFINITY_NEXT_LO",
    ),
}


@pytest.mark.parametrize("case", FALSE)
def test_false_claims_are_found(case: str) -> None:
    name, edit, expected_text = FALSE[case]
    assert not [finding for finding in lint(marked(name)) if finding.rule.id == "GR605"]
    false = edit(marked(name))
    assert expected_text in why_not_resumed(false)
    found = [finding.text for finding in lint(false) if finding.rule.id == "GR605"]
    assert len(found) == 1
    assert ("replays do not go on after a reset: " in found[0]) == (case != "no ReplayStart")
    assert not [
        finding for finding in lint(false.with_(actions=unmarked(false.actions))) if finding.rule.id == "GR605"
    ]


def test_a_step_that_reads_what_it_writes_is_not_repeated() -> None:
    trace = marked("lenet")
    honest = why_not_repeated(trace)
    reasons = [why for why in honest.values() if why]
    assert reasons == ["it writes to what it reads"] * 2
    rows = trace.actions.copy()
    rows["flags"][rows["op"] == Op.JOB] |= FLAG_REPEAT
    found = [finding for finding in lint_dynamic(trace.with_(actions=rows))[0] if finding.rule.id == "GR605"]
    assert [finding.action for finding in found] == [index for index, why in honest.items() if why]
    assert not [finding for finding in lint_dynamic(trace)[0] if finding.rule.id == "GR605"]


def test_two_networks_at_once_claim_nothing() -> None:
    """Their steps are others than each network's alone."""
    made = at_once([marked("lenet-mali"), marked("lenet-mali")]).trace
    assert np.array_equal(unmarked(made.actions), made.actions)
    assert not [finding for finding in lint(made) if finding.rule.id == "GR605"]


def test_what_build_says(tmp_path: Path) -> None:
    path = tmp_path / "net.gtr"
    result = CliRunner().invoke(
        main, ["build", str(RECORDINGS["lenet"]), "--checkpoints", "--json", "-o", str(path)]
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    check("build", data)
    kept_jobs = [{"number": number, "why": "it writes to what it reads"} for number in (11, 13)]
    assert data["checkpoints"] == {"jobs": 14, "kept": kept_jobs}
    text = Marked(14, {"it writes to what it reads": [11, 13]}).lines()
    assert text[0] == "replays go on after a reset; 12 of 14 jobs can be done again after a fault"
    assert says_resume(Trace.read(path))


def test_building_again_says_nothing_that_was_not_shown() -> None:
    again = build(marked("lenet"))
    assert not says_resume(again)
    assert np.array_equal(unmarked(again.actions), again.actions)
    assert says_resume(build(again, asked={"checkpoints": True}))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at", range(1, 14, 4))
def test_power_is_cut_while_registers_are_set_again(at: int) -> None:
    """At any access of it: memory is not written by it, and the next replayer starts cleanly."""
    trace = marked("lenet")
    with running(trace, steps=True) as device:
        device.give(0, inputs(trace, 0))
        steps(device, at)
        give_away(device)
        memory = device.memory
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: memory}) as gpu:
        after = Running(trace, gpu, memory, True)
        after.give(0, inputs(trace, 1))
        assert steps(after) == 14
        assert after.outputs(0) == expected("lenet", 1)
