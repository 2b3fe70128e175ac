# SPDX-License-Identifier: BSD-2-Clause
"""The search for faster kernels: candidates made by tinygrad, judged on lavapipe, and measured in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.extras.speed.kernels import candidates, measuring, searched_kernel, space
from host_tools.extras.speed.kernels import search as module
from host_tools.extras.speed.kernels.candidates import Asked, Candidate, Kernel
from host_tools.extras.speed.kernels.found import Cache, Row
from host_tools.extras.speed.kernels.measuring import Bench, Measured, Trials, judged, plan_of, searchable
from host_tools.extras.speed.kernels.search import COMPILER, Search, Step, made, search
from host_tools.extras.speed.kernels.search_plot import drawn, follow, table
from host_tools.extras.speed.kernels.searched_kernel import SearchedKernel, shared_us
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.model.timing import chip_of
from host_tools.record.compiled import runner
from host_tools.record.compiled.layout import laid_out
from host_tools.record.compiled.plan import Call
from host_tools.record.compiled.shaders import spirv
from host_tools.record.preflight import NetworkError
from host_tools.support import plain
from tests.support.searches import Searched, cost, searched

POINTS = 8


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    return searched(tmp_path_factory.mktemp("net"))


def some(kernel: Kernel) -> list[space.Point]:
    """Schedules of all kinds, good and bad."""
    assert kernel.nest is not None
    found = space.promising(kernel.nest, cost)
    return [*found[:4], *found[4 :: len(found) // (POINTS - 4)]]


@pytest.fixture(scope="module")
def trials(net: Searched) -> list[tuple[Bench, Candidate]]:
    """Candidates of all kernels, each with its bench."""
    asked = [Asked(kernel.key, some(kernel), True) for kernel in net.kernels]
    found = []
    for kernel, (plain_one, *others) in zip(
        net.kernels, made(net.folder / candidates.KERNELS, asked), strict=True
    ):
        bench = Bench(kernel, net.plan.calls[kernel.calls[0]], plain_one)
        found += [(bench, candidate) for candidate in others if candidate.source]
    return found


def left_by(trials: Trials) -> list[dict[int, np.ndarray]]:
    """What candidates compute on lavapipe."""
    plan = plan_of(trials)
    left = runner.judged(laid_out(plan), spirv(plan.kernels), {})
    return [{at: left[f"{number}.{at}"] for at in bench.call.writes} for number, (bench, _) in enumerate(trials)]


def test_kernels_are_described(net: Searched) -> None:
    """Two convolutions, whose kernels have the loops of convolutions."""
    assert len(net.kernels) == 2
    for kernel in net.kernels:
        assert kernel.nest is not None
        assert searchable(kernel, net.plan.calls[kernel.calls[0]])
        assert sum(access.stored for access in kernel.nest.accesses) == 1
    sizes = [sorted(axis.size for axis in kernel.nest.axes) for kernel in net.kernels if kernel.nest]
    assert sizes == [[3, 3, 4, 8, 8, 16], [4, 4, 16, 64]]  # inputs are in blocks of four


def test_each_schedule_computes_the_same(trials: list[tuple[Bench, Candidate]]) -> None:
    assert len(trials) > POINTS
    assert len({candidate.source for _, candidate in trials}) > POINTS
    for (bench, candidate), left in zip(trials, left_by(trials), strict=True):
        assert not bench.judge(left), candidate.opts


def test_a_wrong_one_has_no_time(trials: list[tuple[Bench, Candidate]]) -> None:
    """One that leaves a part out, by a value in the last place, and one that is not a number."""
    bench, candidate = trials[0]
    (left,) = left_by(trials[:1])
    assert judged(bench, Measured(5.0), left).us == 5.0
    for change in (1e-4, np.nan):
        wrong = {at: value.copy() for at, value in left.items()}
        for value in wrong.values():
            value[-1] += change * np.abs(value).max()
        measured = judged(bench, Measured(5.0), wrong)
        assert measured.us is None
        assert "differ" in measured.why, candidate.opts


def test_whole_numbers_may_be_indices(net: Searched) -> None:
    kernel = net.kernels[0]
    call = net.plan.calls[kernel.calls[0]]
    assert not searchable(replace(kernel, types=["float32", "int32", *kernel.types[2:]]), call)
    assert not searchable(replace(kernel, nest=None), call)


def test_what_was_chosen_is_compiled(net: Searched, tmp_path: Path) -> None:
    """The plan has the chosen kernel's code, and the others as they were; keys do not depend on the process."""
    kernel = net.kernels[1]
    ((found,),) = made(net.folder / candidates.KERNELS, [Asked(kernel.key, some(kernel)[:1], False)])
    (tmp_path / candidates.CHOSEN).write_bytes(plain.dumps({kernel.key: found.opts}))
    plan = COMPILER.plan(net.model.read_bytes(), tmp_path)
    (call,) = (plan.calls[at] for at in kernel.calls)
    body = plan.kernels[call.kernel].split("//", 1)[1].split("\n", 1)[1]  # without the name
    assert body == found.source.split("//", 1)[1].split("\n", 1)[1]
    assert call.groups == found.groups
    other = net.kernels[0].calls[0]
    assert plan.kernels[plan.calls[other].kernel] == net.plan.kernels[net.plan.calls[other].kernel]


class Model:
    """In place of the guest: a time that follows from the code, and what lavapipe computes."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong  # code whose result is wrong
        self.seen: list[str] = []

    def measure(self, trials: Trials, chip: object, **_: object) -> list[Measured]:
        found = []
        for bench, candidate in trials:
            self.seen.append(candidate.source)
            left = {at: value + (candidate.source == self.wrong) for at, value in bench.expected.items()}
            us = 1.0 if candidate.source == self.wrong else 1e6 / (3 + len(candidate.source))
            found.append(judged(bench, Measured(us), left))
        return found


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr(module, "measure", model.measure)
    monkeypatch.setattr(searched_kernel, "EACH", 3)
    root = RecordRoot(Path(), Path(), Path(), Path(), {}, "key")
    monkeypatch.setattr(module, "ready_root", lambda snapshot: root)
    return model


def settings(cache: Path, rounds: int, **more: Any) -> Search:
    cache.mkdir(exist_ok=True)
    return replace(Search(1, "v3d42", 1, rounds=rounds, cache=cache), **more)


def test_a_search_finds_less_time(net: Searched, guest: Model, tmp_path: Path) -> None:
    steps: list[Step] = []

    def keep(seen: Sequence[Step]) -> None:
        steps[:] = seen

    found = search(net.plan, net.folder, settings(tmp_path / "c", 2, follow=keep))
    assert steps == found.steps
    assert [step.turn for step in steps] == [0, 1, 2]
    assert steps[0].us > steps[1].us >= steps[2].us
    described = plain.loads(list[Kernel], (net.folder / candidates.DESCRIBED).read_bytes())
    assert found.chosen.keys() <= {kernel.key for kernel in described}
    assert found.chosen
    assert found.notes["us"] == round(steps[-1].us, 1)
    assert found.notes["candidates"] == sum(step.candidates for step in steps) > 4


@pytest.mark.exhaustive  # what is kept: test_a_wrong_candidate_is_never_kept and the cache's tests
def test_a_search_goes_on_where_the_last_stopped(net: Searched, guest: Model, tmp_path: Path) -> None:
    """One round and another find what two do, nothing is measured twice; without time, what is known is taken."""
    whole = search(net.plan, net.folder, settings(tmp_path / "a", 2))
    count = len(guest.seen)
    search(net.plan, net.folder, settings(tmp_path / "b", 1))
    again = search(net.plan, net.folder, settings(tmp_path / "b", 1))
    assert again.chosen == whole.chosen
    assert again.steps[-1].us == whole.steps[-1].us
    assert len(guest.seen) == 2 * count
    none = search(net.plan, net.folder, settings(tmp_path / "b", 0))
    assert none.chosen == whole.chosen
    assert len(guest.seen) == 2 * count


@pytest.mark.exhaustive  # test_a_wrong_candidate_is_never_kept reads what was kept; the interrupt is here only
def test_what_is_interrupted_is_kept(
    net: Searched, guest: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's own kernels and a round, then the user ends it."""
    calls = 0

    def measure(trials: Trials, chip: object, **how: object) -> list[Measured]:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise KeyboardInterrupt
        return guest.measure(trials, chip, **how)

    monkeypatch.setattr(module, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        search(net.plan, net.folder, settings(tmp_path / "c", 9))
    known = search(net.plan, net.folder, settings(tmp_path / "c", 0))
    assert known.chosen
    assert calls > 3


def test_a_wrong_candidate_is_never_kept(net: Searched, guest: Model, tmp_path: Path) -> None:
    """The one that would be by far the fastest."""
    kernel = net.kernels[0]
    assert kernel.nest is not None
    first = space.promising(kernel.nest, cost)[0]
    ((planted,),) = made(net.folder / candidates.KERNELS, [Asked(kernel.key, [first], False)])
    guest.wrong = planted.source
    found = search(net.plan, net.folder, settings(tmp_path / "c", 1))
    assert planted.source in guest.seen
    assert found.chosen.get(kernel.key) != planted.opts
    rows = Cache(chip_of("v3d42"), "key", tmp_path / "c").read(kernel.key)
    (row,) = (row for row in rows if row.opts == planted.opts)
    assert row.measured.us is None


@pytest.mark.exhaustive  # an unfit kernel: test_a_wrong_candidate_is_never_kept
def test_a_kernel_whose_results_are_not_finite_is_left_as_it_is(
    net: Searched, guest: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ResNet-18's search once ended with one: a pool's padding, minus infinity, was among its results."""
    infinite, other = net.kernels

    class Checked(Bench):
        def __init__(self, kernel: Kernel, call: Call, plain: Candidate | None) -> None:
            if plain is not None and kernel.key == infinite.key:
                raise RecordError(f"kernel {kernel.name}: its results are not finite for random inputs")
            super().__init__(kernel, call, plain)

    monkeypatch.setattr(module, "Bench", Checked)
    found = search(net.plan, net.folder, settings(tmp_path / "c", 3))
    assert infinite.key not in found.chosen
    rows = Cache(chip_of("v3d42"), "key", tmp_path / "c").read(other.key)
    assert [row.turn for row in rows if row.point is not None][-1] == 3, "the search went on with the other one"


def test_other_constants_or_drivers_have_other_results(tmp_path: Path) -> None:
    chip = chip_of("v3d42")
    row = Row(None, [("UPCAST", 0, 4)], 0, Measured(3.0))
    cache = Cache(chip, "stack", tmp_path)
    assert cache.add("k", [row]) == cache.read("k") == [row]
    assert cache.add("k", [replace(row, measured=Measured(4.0))]) == [row]  # the first stays
    assert Cache(chip, "other", tmp_path).read("k") == []
    clock = replace(chip.constants["clock"], value=400.0)
    assert Cache(replace(chip, constants={**chip.constants, "clock": clock}), "stack", tmp_path).read("k") == []


def test_damaged_results_are_measured_again(tmp_path: Path) -> None:
    cache = Cache(chip_of("v3d42"), "stack", tmp_path)
    cache.add("k", [Row(None, [], 0, Measured(3.0))])
    (path,) = tmp_path.glob("*.cbor")
    path.write_bytes(path.read_bytes()[:-3])
    assert cache.read("k") == []


def test_a_gpu_without_constants_is_refused(net: Searched, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"^--search: no chip with GPU mali_g999 has constants"):
        search(net.plan, net.folder, settings(tmp_path / "c", 1, gpu="mali_g999"))


def test_one_that_cannot_be_run_is_found_by_halving(
    trials: list[tuple[Bench, Candidate]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight the sixth stops the guest: it has the reason, the others their time."""
    bad = trials[5][1].source

    def run(layout: object, shaders: list[bytes], **_: object) -> list[bytes]:
        if bad.encode() in shaders:
            raise RecordError("the driver refuses it")
        return shaders

    monkeypatch.setattr(measuring, "spirv", lambda kernels: [kernel.encode() for kernel in kernels])
    monkeypatch.setattr(measuring, "run_plan", run)
    monkeypatch.setattr(measuring, "_counted", lambda shaders, trials, chip: [Measured(1.0)] * len(shaders))
    found = measuring.measure(trials[:8], chip_of("v3d42"), timeout=9, snapshot="", what="it")
    assert [one.why for one in found] == [""] * 5 + ["the driver refuses it"] + [""] * 2


def test_plots(tmp_path: Path) -> None:
    steps = [Step(3.0, 0, 0, 2e5), Step(9.0, 1, 26, 1e5)]
    assert table(steps).splitlines() == ["round,seconds,candidates,us", "0,3.0,0,200000.0", "1,9.0,26,100000.0"]
    assert drawn(steps).count("<circle") == 2
    follow(tmp_path / "a.csv")(steps)
    assert (tmp_path / "a.csv").read_text() == table(steps)
    follow(tmp_path / "a.svg")(steps)
    assert (tmp_path / "a.svg").read_text() == drawn(steps)


def test_kernels_that_are_alike_share_what_was_found(net: Searched, guest: Model, tmp_path: Path) -> None:
    """Of two with the same loops one is in a round, while there are others, and begins with the other's best."""
    first, other = net.kernels
    assert first.nest is not None
    bench = Bench(first, net.plan.calls[first.calls[0]], None)
    best = space.promising(first.nest, cost)[7]
    tried, fresh, third = (
        SearchedKernel(kernel, 1, bench, cost) for kernel in (first, replace(first, key="fresh"), other)
    )
    for state in (tried, fresh, third):
        state.rows = [Row(None, [], 0, Measured(9.0))]
    tried.rows.append(Row(best, [("UPCAST", 0, 4)], 1, Measured(5.0)))
    settled = settings(tmp_path / "c", 1)
    rounds = module._Rounds(net.plan, net.folder, settled, chip_of("v3d42"), Cache(chip_of("v3d42"), "key"))
    rounds.states = [tried, fresh, third]
    assert rounds._next()[-1] is tried
    points = fresh.next_points([tried, third])
    assert points[0] == best
    assert len(set(points)) == searched_kernel.EACH
    assert best not in tried.next_points([fresh, third])
    assert best not in fresh.next_points([])

    # Where loops have other sizes, what brought most is one of those that are tried, if it is valid there.
    channels, *axes = first.nest.axes
    for larger, has_it in ((channels.size * 2, True), (channels.size * 2 + 1, False)):
        nest = replace(first.nest, axes=(replace(channels, size=larger), *axes))
        resized = SearchedKernel(replace(first, key="resized", nest=nest), 1, bench, cost)
        resized.rows = [Row(None, [], 0, Measured(9.0))]
        points = resized.next_points([tried, third])
        assert (best in points) == has_it == space.valid(nest, best)
        assert len(set(points)) == searched_kernel.EACH
        assert resized.loops != tried.loops


def test_a_kernel_that_takes_most_is_tried_longest(net: Searched, tmp_path: Path) -> None:
    """Each round without a gain halves what is expected of the next."""
    benches = [Bench(kernel, net.plan.calls[kernel.calls[0]], None) for kernel in net.kernels]
    large, small = (SearchedKernel(bench.kernel, 1, bench, cost) for bench in benches)
    settled = settings(tmp_path / "c", 1)
    rounds = module._Rounds(net.plan, net.folder, settled, chip_of("v3d42"), Cache(chip_of("v3d42"), "key"))
    rounds.states = [large, small]
    large.rows, small.rows = ([Row(None, [], 0, Measured(us))] for us in (990.0, 10.0))
    order = []
    for turn in range(1, 12):
        order.append(["large" if state is large else "small" for state in rounds._next()])
        for state, us in ((large, 990.0), (small, 10.0)):
            state.rows.append(Row(None, [("UPCAST", turn, 4)], turn, Measured(us)))
    assert order[0] == ["large", "small"]
    assert [len(names) for names in order].index(1) == 3, "10 of 1,000 is less than two, halved three times"
    assert [len(names) for names in order].index(0) == 9, "990 halved nine times"


def test_a_kernel_that_a_cpu_shares() -> None:
    """Of two products that are as fast, the one whose workgroups divide where both are done at once; of what is
    none, the fastest."""
    nest = space.Nest(
        (
            space.Axis((0,), 512, False),
            space.Axis((1,), 196, False),
            space.Axis((2,), 128, True),
            space.Axis((3,), 4, True),
        ),
        (),
    )
    coarse = Row(space.Point((4, 4, 1, 1), (32, 7, 1, 1), 1, False), [], 1, Measured(6100.0))
    fine = Row(space.Point((4, 14, 1, 1), (8, 7, 1, 1), 1, False), [], 2, Measured(6200.0))
    swapped = Row(space.Point((4, 14, 1, 1), (8, 7, 1, 1), 1, False, True), [], 3, Measured(6200.0))
    cpu_us = 2e-3 * 512 * 196 * 512 / 9.2
    assert shared_us(nest, coarse, 9.2) == pytest.approx(6100 * 3 / 4)
    assert shared_us(nest, fine, 9.2) == pytest.approx(cpu_us * 6 / 16)
    assert shared_us(nest, swapped, 9.2) == 6200
    assert shared_us(nest, Row(None, [], 0, Measured(9000.0)), 9.2) == 9000
    assert shared_us(nest, replace(fine, measured=Measured(None, why="wrong")), 9.2) == float("inf")
    for axes in (nest.axes[:2], (*nest.axes[:2], replace(nest.axes[1], number=(4,)), *nest.axes[2:])):
        assert shared_us(replace(nest, axes=axes), coarse, 9.2) == 6100
