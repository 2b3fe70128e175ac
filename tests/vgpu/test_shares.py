# SPDX-License-Identifier: BSD-2-Clause
"""Two networks at the same time on parts of a Mali's cores (`join --share`), on the virtual GPU."""

from __future__ import annotations

import contextlib
import functools
import json
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.accesses.job_times import job_times, replayed
from host_tools.accesses.observe import random_inputs
from host_tools.audit.lint import lint
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.families.page_tables import DivergenceError
from host_tools.families.shares import NotSharedError, elapsed, overlap
from host_tools.gpus.mali.share_order import order
from host_tools.model.interpreter import interpreter
from host_tools.model.timing import chip_of
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.mali_shares import CORES, LATENCY_NS, Watching, at_once, lenet
from trace_format import profile
from trace_format.actions import ALL_BITS, MAP_READ, MAP_WRITE, Action, Op, action, actions_of, array_of
from trace_format.errors import GramophoneError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Arrays = dict[str, NDArray[Any]]
ELSEWHERE = 0x0A100000  # a GPU address that LeNet does not use


@functools.cache
def both() -> Trace:
    return at_once([lenet(), lenet()]).trace


def run(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def refused(*words: object) -> str:
    """The sentence of exit status 2; no traceback, nothing on standard output."""
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@functools.cache
def alone(seed: int) -> bytes:
    """LeNet's output by itself."""
    with interpreter(lenet()) as device:
        return device.run(random_inputs(lenet(), seed))["prob"].tobytes()


def given_to_both(seeds: Sequence[int]) -> Arrays:
    return {f"{name}/data": random_inputs(lenet(), seed)["data"] for name, seed in zip("ab", seeds, strict=True)}


def replay(device: Watching, seeds: Sequence[int]) -> list[bytes]:
    found = device.run(given_to_both(seeds))
    return [found[f"{name}/prob"].tobytes() for name in "ab"]


@pytest.fixture
def lenet_file(tmp_path: Path) -> Path:
    path = tmp_path / "lenet.gtr"
    path.write_bytes(lenet().build())
    return path


@pytest.mark.parametrize("latency_ns", [0, LATENCY_NS])
def test_outputs_are_those_of_the_single_traces(latency_ns: int) -> None:
    device = Watching(both(), latency_ns=latency_ns)
    try:
        for seeds in ((0, 1), (1, 0), (2, 2)):
            assert replay(device, seeds) == [alone(seed) for seed in seeds]
        assert bool(device.both) == bool(latency_ns)  # jobs that take time run at the same time
    finally:
        device.close()


@pytest.mark.parametrize("seed", range(4))
def test_wrong_times_cost_time_only(seed: int) -> None:
    """The order of waits follows what is predicted; whatever that is, the outputs are the same."""
    random = np.random.default_rng(seed)
    us = [random.lognormal(0, 2, lenet().jobs).tolist() for _ in "ab"]
    made = at_once([lenet(), lenet()], us)
    assert made.rendezvous == 0
    device = Watching(made.trace, latency_ns=LATENCY_NS)
    try:
        assert replay(device, (0, 1)) == [alone(0), alone(1)]
    finally:
        device.close()


def loaded(trace: Trace, gpu: VirtualGpu, memory: mmap.mmap) -> hostlib.HostReplayer:
    known = profile.load(trace.gpu)
    replayer = hostlib.HostReplayer(s.library(known), known, gpu.c_interface, memory, s.CARVEOUT_PHYS)
    replayer.load(s.signed(trace), s.KEY)
    return replayer


@pytest.mark.parametrize("latency_ns", [0, LATENCY_NS])
def test_on_a_device(latency_ns: int) -> None:
    """The core of devices, with all of its checks, and nothing linked for it."""
    trace = both()
    memory = mmap.mmap(-1, trace.carveout_bytes + (8 << 20))
    with VirtualGpu(trace.gpu, {s.CARVEOUT_PHYS: memory}, latency_ns=latency_ns) as gpu:
        replayer = loaded(trace, gpu, memory)
        buffers = {slot.name: np.zeros(slot.shape, slot.numpy_dtype) for slot in trace.slots}
        for index, slot in enumerate(trace.slots):
            replayer.bind(index, buffers[slot.name])
        for seeds in ((0, 1), (1, 0)):
            for name, array in given_to_both(seeds).items():
                buffers[name][...] = array
            replayer.run()
            assert [buffers[f"{name}/prob"].tobytes() for name in "ab"] == [alone(seed) for seed in seeds]
        assert gpu.counters().jobs == 2 * trace.jobs


def starts(trace: Trace) -> list[tuple[str, dict[str, int]]]:
    """Each job: its slot, and what was written to its registers."""
    written: dict[str, int] = {}
    found = []
    for row in actions_of(trace.actions):
        if row.op == Op.REG_WRITE:
            name = trace.profile.by_offset[4 * row.register].name
            written[name] = row.value
            if name.endswith("COMMAND_NEXT"):
                slot = name[:3]
                found.append((slot, {k[4:]: v for k, v in written.items() if k.startswith(slot)}))
    return found


def test_each_has_its_slot_cores_and_address_space() -> None:
    trace = both()
    for slot, registers in starts(trace):
        which = int(slot[2]) - 1
        assert registers["AFFINITY_NEXT_LO"] == CORES[which]
        assert registers["AFFINITY_NEXT_HI"] == 0
        assert registers["CONFIG_NEXT"] & 0xF == which
    assert {slot for slot, _ in starts(trace)} == {"js1", "js2"}
    assert {slot.name: slot.address_space for slot in trace.slots}["b/prob"] == 1
    assert trace.meta["core_mask"] == 0xFF
    assert not trace.networks


def test_a_wait_sees_one_slot() -> None:
    """Of job interrupts, a replay lets through and clears the own slot's done bit, and each failure."""
    masks, cleared, replays = list[int](), list[int](), False
    for row in actions_of(both().actions):
        replays |= row.op == Op.REPLAY_START
        name = named(both(), row) if replays else ""
        masks += [row.value] if name == "job.IRQ_MASK" else []
        cleared += [row.value] if name == "job.IRQ_CLEAR" else []
    assert set(masks) == {0x70002, 0x70004}
    assert [mask & 0xFFFF for mask in masks] == cleared
    assert len(cleared) == both().jobs


def test_what_one_writes_the_other_cannot_reach() -> None:
    """By the tables: no page that jobs or callers write is in both."""
    found: dict[tuple[int, bool], set[int]] = {(space, w): set() for space in (0, 1) for w in (False, True)}
    image = -(-len(both().image) // PAGE_BYTES)
    for row in actions_of(both().actions):
        if row.op == Op.MAP_GPU_MEM:
            pages = {page for page in range(row.frame, row.frame + row.pages) if page >= image}
            found[row.address_space, bool(row.flags & MAP_WRITE)] |= pages
    own, other = (found[space, False] | found[space, True] for space in (0, 1))
    assert own
    assert other
    assert not own & other


def test_lint_finds_memory_of_both() -> None:
    """A page that one may write, mapped into the other's address space; of the image, both may read."""
    assert not [finding for finding in lint(both()) if finding.rule.id == "GR306"]
    space = {"va_page": ELSEWHERE // PAGE_BYTES, "pages": 1, "address_space": 0}
    rows = [row for row in actions_of(both().actions) if row.op == Op.MAP_GPU_MEM and row.flags & MAP_WRITE]
    mapped = next(row for row in rows if row.address_space == 1)
    extra = action(Op.MAP_GPU_MEM, flags=MAP_READ, frame=mapped.frame, **space)
    found = lint(both().with_(actions=array_of([extra, *actions_of(both().actions)])))
    assert [one.rule.id for one in found] == ["GR306"]
    assert "have 1 pages in common" in found[0].text


def reaching(space: int) -> Trace:
    """A trace of both in which a page of b's is at ELSEWHERE, too, and a job of a's or b's starts there."""
    trace, rows = both(), list[Action]()
    mapped = next(
        row
        for row in actions_of(trace.actions)
        if row.op == Op.MAP_GPU_MEM and row.address_space == 1 and row.flags & MAP_WRITE
    )
    heads = trace.profile.register(f"js{space + 1}.HEAD_NEXT_LO").index
    for row in actions_of(trace.actions):
        if row == mapped:
            elsewhere = {"va_page": ELSEWHERE // PAGE_BYTES, "pages": 1, "frame": row.frame, "address_space": 1}
            rows.append(action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, **elsewhere))
        if row.op == Op.REG_WRITE and row.register == heads:
            row = row.with_(value=ELSEWHERE)
        rows.append(row)
    return trace.with_(actions=array_of(rows))


def test_a_job_that_reaches_for_the_others_memory_faults() -> None:
    trace = reaching(0)
    memory = mmap.mmap(-1, trace.carveout_bytes + (8 << 20))
    with VirtualGpu(trace.gpu, {s.CARVEOUT_PHYS: memory}) as gpu:
        replayer = loaded(trace, gpu, memory)
        for index, slot in enumerate(trace.slots):
            replayer.bind(index, np.zeros(slot.shape, slot.numpy_dtype))
        with pytest.raises(ReplayError, match="FAULT") as caught:
            replayer.run()
    assert "AS0_PAGE_FAULT" in str(caught.value)
    with interpreter(reaching(1)) as device, pytest.raises(DivergenceError) as other:
        device.run(given_to_both((0, 1)))
    assert "status of an earlier run" in str(other.value) or "not modelled" in str(other.value)  # it is read there


@given(st.data())
def test_the_order_of_jobs(data: st.DataObject) -> None:
    """Who ends first by the times is waited for first, and a network's next job starts at once."""
    us = [[data.draw(st.floats(1, 1000)) for _ in range(lenet().jobs)] for _ in "ab"]
    found = order(at_once([lenet(), lenet()], us).trace)
    numbers = iter(range(lenet().jobs)), iter(range(lenet().jobs))
    slots = [0 if slot == "js1" else 1 for slot, _ in starts(at_once([lenet(), lenet()], us).trace)]
    times = [us[slot][next(numbers[slot])] for slot in slots]
    assert elapsed(found, times) == pytest.approx(max(map(sum, us)))
    assert overlap(found)


def test_time_is_that_of_both_at_once() -> None:
    chip = chip_of("mali_g71")
    parts = [replayed(lenet(), job_times(lenet(), chip, 4)).us for _ in "ab"]
    assert replayed(both(), job_times(both(), chip)).us == pytest.approx(max(parts))
    assert not overlap(order(lenet()))


def test_the_command(lenet_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.gtr"
    words = [
        "sharing",
        "join",
        lenet_file,
        lenet_file,
        "--names",
        "a,b",
        "--share",
        "a=0x0f",
        "--share",
        "b=0xc0",
        "-o",
        out,
    ]
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["shares"] == [{"name": "a", "cores": 0x0F}, {"name": "b", "cores": 0xC0}]
    assert found["rendezvous"] == 0
    assert found["warnings"] == ["two jobs at the same time were not tried on a board"]
    estimate = found["estimate"]
    assert max(estimate["alone_us"]) <= estimate["us"] + 1e-6 < sum(estimate["alone_us"])
    assert estimate["alone_us"][0] < estimate["alone_us"][1]  # two cores are slower than four
    trace = Trace.read(out)
    assert trace.notes["calls"][:2] == ["a/0", "b/0"]
    assert (run("lint", out).exit_code, run("dump", out).exit_code, run("inspect", out).exit_code) == (0, 0, 0)
    assert "two of its jobs run at the same time" in refused("build", out, "-o", tmp_path / "again.gtr")
    assert "found jobs that run at the same time" in refused(
        "join", out, lenet_file, "--names", "c,d", "--share", "c=0x0f", "--share", "d=0xf0", "-o", tmp_path / "x"
    )
    assert not (tmp_path / "x").exists()
    timed = json.loads(run("speed", "time", out, "--json").stdout)
    assert timed["replay"]["us"] == pytest.approx(estimate["us"])
    assert "run on some of the cores already" in refused("speed", "time", out, "--cores", "2")
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"replay_us": 1000, "jobs": trace.jobs}))
    fit = ["speed", "calibrate", f"{out}={result}", "-o", tmp_path / "fit.toml"]
    assert "its jobs run on some of the cores, and constants are those of all" in refused(*fit)
    plain = run(*words, "--no-estimate", "--json")
    assert json.loads(plain.stdout)["estimate"] is None


SHARES = ["--share", "a=0x0f", "--share", "b=0xf0"]
WRONG: list[tuple[str, list[str], str]] = [
    ("both have a core", ["--share", "a=0x1f", "--share", "b=0xf0"], "a and b both have cores 0x10"),
    ("no core", ["--share", "a=0", "--share", "b=0xf0"], "a has no cores: expected a mask of 0xff"),
    ("no such core", ["--share", "a=0x0f", "--share", "b=0x1f0"], "b: there are no cores 0x100"),
    ("no mask", ["--share", "a=some", "--share", "b=0xf0"], "--share a: expected a mask of cores"),
    ("a negative mask", ["--share", "a=-1", "--share", "b=0xf0"], "--share a: expected a mask of cores"),
    ("one only", ["--share", "a=0x0f"], "--share: b has no core share"),
    ("unknown", ["--share", "a=0x0f", "--share", "c=0xf0"], "--share: no network 'c'"),
    ("twice", ["--share", "a=0x0f", "--share", "a=0xf0"], "--share: a has two core shares"),
    ("exclusive", [*SHARES, "--exclusive"], "--share cannot be combined with --exclusive"),
    ("a period", [*SHARES, "--period", "a=20"], "--share cannot be combined with --period"),
    ("taken out", [*SHARES, "--take", "a"], "--share cannot be combined with --take"),
    ("compared", [*SHARES, "--check", "a=x"], "--check cannot be combined"),
]


@pytest.mark.parametrize(("words", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_shares(lenet_file: Path, tmp_path: Path, words: list[str], message: str) -> None:
    out = tmp_path / "out.gtr"
    assert message in refused("sharing", "join", lenet_file, lenet_file, "--names", "a,b", "-o", out, *words)
    assert not out.exists()


def test_three_networks_and_a_v3d(lenet_file: Path, tmp_path: Path) -> None:
    out, v3d = tmp_path / "out.gtr", tmp_path / "v3d.gtr"
    three = ["sharing", "join", lenet_file, lenet_file, lenet_file, "--names", "a,b,c", "-o", out]
    assert "--share: expected two traces, found 3" in refused(*three, *SHARES)
    v3d.write_bytes(build(Trace.read(RAW)).build())
    two = ["sharing", "join", v3d, v3d, "--names", "a,b", "-o", out]
    assert "v3d42: its cores cannot be shared: a V3D runs one job at a time" in refused(*two, *SHARES)
    assert "jobs run on all of its cores" in refused("speed", "time", v3d, "--cores", "2")
    same = ["sharing", "join", lenet_file, lenet_file, "-o", out, "--share", "lenet=0x0f", "--share", "lenet=0xf0"]
    assert "both networks are called lenet: expected other --names" in refused(*same)
    assert not out.exists()


def edited(change: Any) -> Trace:
    """LeNet with each action changed to others."""
    trace = lenet()
    return trace.with_(actions=array_of([row for old in actions_of(trace.actions) for row in change(trace, old)]))


def named(trace: Trace, row: Action) -> str:
    """Of a write, the register; otherwise nothing."""
    return trace.profile.by_offset[4 * row.register].name if row.op == Op.REG_WRITE else ""


def other_setting(trace: Trace, row: Action) -> list[Action]:
    return [row.with_(value=4) if named(trace, row) == "gpu.JM_CONFIG" else row]


def fewer_cores(trace: Trace, row: Action) -> list[Action]:
    return [row.with_(value=0x0F) if named(trace, row) == "gpu.SHADER_PWRON_LO" else row]


def power_between(trace: Trace, row: Action) -> list[Action]:
    register = trace.profile.register("gpu.SHADER_PWROFF_LO").index
    power = action(Op.REG_WRITE, register=register, value=0xFF, mask=ALL_BITS)
    return [row, power] if row.op == Op.COPY_TO_GPU else [row]


def slot_0(trace: Trace, row: Action) -> list[Action]:
    name = named(trace, row)
    if name == "js1.COMMAND_NEXT":
        return [row.with_(register=trace.profile.register("js0.COMMAND_NEXT").index)]
    return [row]


def no_wait(trace: Trace, row: Action) -> list[Action]:
    return [] if row.op == Op.WAIT_IRQ else [row]


def other_interrupt(trace: Trace, row: Action) -> list[Action]:
    return [row, action(Op.WAIT_IRQ, line=2, timeout_us=5)] if row.op == Op.COPY_TO_GPU else [row]


def job_failed(trace: Trace, row: Action) -> list[Action]:
    status = trace.profile.register("job.IRQ_STATUS").index
    return [row.with_(expected=0x20000) if row.op == Op.REG_READ_ONCE and row.register == status else row]


CANNOT: list[tuple[Any, str]] = [
    (other_setting, "gpu.JM_CONFIG is 0xc for the one and 0x4 for the other; record both with the same driver"),
    (power_between, "gpu.SHADER_PWROFF_LO is written, which concerns both networks"),
    (slot_0, "it uses job slots 1 and 0"),
    (no_wait, "a job is queued behind another one"),
    (other_interrupt, "interrupt gpu is waited for"),
    (job_failed, "a job has failed in the recording"),
]


@pytest.mark.parametrize(("change", "message"), CANNOT, ids=[change.__name__ for change, _ in CANNOT])
def test_what_cannot_run_at_the_same_time(change: Any, message: str) -> None:
    with pytest.raises(NotSharedError) as caught:
        at_once([lenet(), edited(change)])
    assert message in str(caught.value)


@given(st.data())
def test_a_trace_that_was_changed_is_refused_or_taken(data: st.DataObject) -> None:
    """With one of our errors, and no other."""
    rows = list(actions_of(lenet().actions))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(rows) - 1))
        match data.draw(st.sampled_from(("drop", "double", "swap", "other"))):
            case "drop":
                del rows[at]
            case "double":
                rows.insert(at, rows[at])
            case "swap":
                rows[at], rows[-1 - at] = rows[-1 - at], rows[at]
            case _:
                rows[at] = rows[at]._replace(arg=data.draw(st.integers(0, 0x1FF)))
    with contextlib.suppress(GramophoneError):
        trace = lenet().with_(actions=array_of(rows))
        trace.check()
        at_once([trace, lenet()])
        at_once([lenet(), trace])


def test_cores_that_are_not_powered_up() -> None:
    with pytest.raises(NotSharedError, match="a powers up cores 0xf: b is to have 0xf0"):
        at_once([edited(fewer_cores), edited(fewer_cores)])


def with_flushes(trace: Trace, row: Action) -> list[Action]:
    """A flush through the address space before each job but the first, as Arm's driver may do it."""
    if row.op != Op.JOB or row.number == 0:
        return [row]
    command, status = (trace.profile.register(f"as0.{name}").index for name in ("COMMAND", "STATUS"))
    return [
        action(Op.REG_WRITE, register=command, value=5, mask=ALL_BITS),
        action(Op.REG_READ_WAIT, register=status, expected=0, mask=1, timeout_us=1000),
        row,
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_what_needs_an_idle_gpu_waits_for_the_other(which: int) -> None:
    """A rendezvous each, in either network; nobody starves; no job runs at any flush."""
    traces = [lenet(), lenet()]
    traces[which] = edited(with_flushes)
    made = at_once(traces)
    assert 0 < made.rendezvous < lenet().jobs
    commands = {made.trace.profile.register(f"as{space}.COMMAND").index for space in (0, 1)}

    class Checking(Watching):
        """Also says when a command is given to an address space while a job runs."""

        def _step(self, row: Action) -> None:
            if row.op == Op.REG_WRITE and row.register in commands and self.replays:
                slots = (self.gpu_profile.register(f"js{slot}.STATUS") for slot in (1, 2))
                assert all(self.gpu.read32(slot.offset) != 8 for slot in slots)
            super()._step(row)

    device = Checking(made.trace, latency_ns=LATENCY_NS)
    try:
        assert replay(device, (0, 1)) == [alone(0), alone(1)]
    finally:
        device.close()


def test_a_difference_is_refused(lenet_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written that computes something else than the single traces."""
    from host_tools.extras.sharing.commands import join_shares

    monkeypatch.setattr(join_shares, "_different", lambda trace, rows: "output a/prob")
    out = tmp_path / "out.gtr"
    words = ["sharing", "join", lenet_file, lenet_file, "--names", "a,b", "--no-estimate", "-o", out, *SHARES]
    assert "joint and single replays give different results: output a/prob" in refused(*words)
    assert not out.exists()


def test_networks_are_simulated_at_once(lenet_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gtr"
    other.write_bytes(lenet().with_(meta=lenet().meta | {"name": "other"}).build())
    words = [
        "sharing",
        "simulate",
        lenet_file,
        other,
        "--seconds",
        "1",
        "--scheduler",
        "fifo",
        "--seed",
        "0",
        "--json",
    ]
    done = run(*words, "--share", "lenet=0x0f", "--share", "other=0xf0")
    assert done.exit_code == 0, done.output
    found = {one["policy"]: one for one in json.loads(done.stdout)["policies"]}
    assert set(found) == {"fifo", "shares"}
    requests = [sum(one["requests"] for one in policy["networks"]) for policy in found.values()]
    assert requests[0] == requests[1] > 0
    chip = chip_of("mali_g71")
    us = replayed(lenet(), job_times(lenet(), chip, 4)).us
    assert found["shares"]["longest_job_us"] == pytest.approx(us)
    assert "--share: other has no core share" in refused(*words[:-1], "--share", "lenet=0x0f")


def test_cores_and_regret(lenet_file: Path, tmp_path: Path) -> None:
    done = run("speed", "time", lenet_file, "--cores", "2,4,8", "--variant", lenet_file, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["on_cores"]
    assert [row["cores"] for row in rows] == [8, 4, 2]
    times = [row["replays"][0]["times"] for row in rows]
    assert times[0] == 1 < times[1] < times[2] < 4
    assert [row["regret"] for row in rows] == [0, 0, 0]
    assert "has 8 cores: expected 1 to 8, found 9" in refused("speed", "time", lenet_file, "--cores", "9")
    assert "--cores: expected numbers of cores" in refused("speed", "time", lenet_file, "--cores", "0,2")
    assert "--variant requires --cores" in refused("speed", "time", lenet_file, "--variant", lenet_file)
    other = tmp_path / "other.gtr"
    other.write_bytes(at_once([lenet(), lenet()]).trace.build())
    assert "no trace of the same network" in refused(
        "speed", "time", lenet_file, "--cores", "2", "--variant", other
    )


def test_an_error_is_one_of_ours() -> None:
    assert issubclass(NotSharedError, GramophoneError)
