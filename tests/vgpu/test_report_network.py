# SPDX-License-Identifier: BSD-2-Clause
"""Layers, blocks and their picture, and the chart of memory: of the demo's network, and of made-up ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from host_tools.accesses.job_times import Estimated
from host_tools.audit.report import facts, graph, memory_chart, network
from host_tools.audit.report.collect import Asked, collect, parse, with_times
from host_tools.demo import RAW

IN, OUT = facts.Node(facts.SLOT, slot="x"), facts.Node(facts.SLOT, slot="y")


@pytest.fixture(scope="module")
def recording() -> facts.Report:
    data = RAW.read_bytes()
    return collect(Asked("net.gtr", data), parse(data, "net.gtr"))


def job(number: int, name: str = "") -> facts.Job:
    return facts.Job(number, 10 * number + 1, number, name, "compute", "", {}, [], 100, 8, 8)


def at(number: int) -> facts.Node:
    return facts.Node(facts.JOB, job=number)


def made(recording: facts.Report, names: list[str], edges: list[tuple[facts.Node, facts.Node]]) -> facts.Report:
    """A report of jobs with these names and this data flow, from x to y; w is a parameter."""
    given = {"x": "input", "y": "output", "conv1.weight": "parameter"}
    slots = [replace(recording.slots[0], name=name, kind=kind) for name, kind in given.items()]
    return replace(
        recording,
        slots=slots,
        jobs=[job(number, name) for number, name in enumerate(names)],
        flow=facts.Flow("run", [facts.Edge(source, target, 64) for source, target in edges]),
    )


def chain(count: int) -> list[tuple[facts.Node, facts.Node]]:
    return [(IN, at(0)), *((at(a), at(b)) for a, b in pairwise(range(count))), (at(count - 1), OUT)]


def test_consecutive_jobs_of_a_name_are_a_layer(recording: facts.Report) -> None:
    names = ["a (Pad)", "b (Convolution)", "b (Convolution)", "", "a (Pad)"]
    found = network.layers(made(recording, names, chain(5)))
    assert [(layer.title, layer.kind, layer.jobs) for layer in found] == [
        ("a", "Pad", (0,)),
        ("b", "Convolution", (1, 2)),
        ("job 3", "compute", (3,)),
        ("a", "Pad", (4,)),
    ]
    assert [layer.share for layer in found] == [20, 40, 20, 20]
    assert found[1].instructions == 200


def test_jobs_have_the_names_of_their_weights(recording: facts.Report) -> None:
    """Job 0 prepares weights for job 2, which also reads what job 1 made of the input."""
    weight = facts.Node(facts.SLOT, slot="conv1.weight")
    edges = [(weight, at(0)), (IN, at(1)), (at(0), at(2)), (at(1), at(2)), (at(2), OUT)]
    report = made(recording, ["", "", ""], edges)
    found = network.layers(report)
    assert [(layer.title, layer.kind) for layer in found] == [
        ("conv1", network.PREPARES),
        ("job 1", "compute"),
        ("conv1", "compute"),
    ]
    assert network.preparing(report, found) == (0,)


def test_blocks_by_name(recording: facts.Report) -> None:
    names = ["stem", "block0_norm (N)", "block0_fc (F)", "block1_norm (N)", "block1_fc (F)", "head"]
    report = made(recording, names, chain(6))
    parts = network.folded(report, network.layers(report))
    assert [(part.title, part.layers) for part in parts] == [
        ("stem", (0,)),
        ("block0", (1, 2)),
        ("block1", (3, 4)),
        ("head", (5,)),
    ]


def test_long_chains_are_folded(recording: facts.Report) -> None:
    report = made(recording, [""] * 100, chain(100))
    parts = network.folded(report, network.layers(report))
    assert len(parts) == -(-100 // network.LONGEST)
    assert [number for part in parts for number in part.layers] == list(range(100))


@pytest.mark.parametrize("fold", [False, True])
def test_the_picture_has_all_data_flow(recording: facts.Report, fold: bool) -> None:
    """Every part once, no two in one place, each below what it reads, and all bytes between parts."""
    layers = network.layers(recording)
    parts = network.folded(recording, layers) if fold else network.each(layers)
    found = graph.picture("p", recording, layers, parts)
    ends = [slot for slot in recording.slots if slot.kind != "parameter"]
    assert len(found.boxes) == 1 + len(ends) + len(parts)
    assert len({(box.x, box.y) for box in found.boxes}) == len(found.boxes)
    assert all(0 <= box.x <= found.width - graph.BOX for box in found.boxes)
    assert all(0 <= box.y <= found.height - graph.TALL for box in found.boxes)
    part_of: dict[int | None, int] = {
        job: at for at, part in enumerate(parts) for layer in part.layers for job in layers[layer].jobs
    }
    between = [
        edge.bytes
        for edge in recording.flow.edges
        if None in (edge.source.job, edge.target.job) or part_of[edge.source.job] != part_of[edge.target.job]
    ]
    assert sum(arrow.bytes for arrow in found.arrows) == sum(between)
    assert any(arrow.constant for arrow in found.arrows)


def test_parts_stand_below_what_they_read(recording: facts.Report) -> None:
    edges = [(IN, at(0)), (at(0), at(1)), (at(0), at(2)), (at(1), at(3)), (at(2), at(3)), (at(3), OUT)]
    report = made(recording, ["a", "b", "c", "d"], edges)
    layers = network.layers(report)
    found = graph.picture("p", report, layers, network.each(layers))
    y = {box.title: box.y for box in found.boxes}
    x = {box.title: box.x for box in found.boxes}
    assert y["x"] < y["a"] < y["b"] == y["c"] < y["d"] < y["y"]
    assert x["b"] != x["c"]
    assert x["x"] == x["a"]


def test_shares_are_of_estimated_time_where_there_is_one(recording: facts.Report) -> None:
    report = made(recording, ["a", "b", "c"], chain(3))
    assert "instructions" in network.measure(report)[0]
    whole = Estimated("pi4", "a board", 40.0, 20.0, 80.0)
    timed = with_times(report, whole, {0: 10.0, 20: 30.0})  # jobs start at actions 1, 11 and 21
    assert [job.us for job in timed.jobs] == [10.0, 0.0, 30.0]
    assert "time" in network.measure(timed)[0]
    assert [layer.share for layer in network.layers(timed)] == [25, 0, 75]


def test_the_chart_has_what_jobs_touched(recording: facts.Report) -> None:
    found = memory_chart.memory_chart(recording)
    assert found
    drawn = sorted(number for lane in found.lanes for number in lane.regions)
    assert drawn == [number for number, region in enumerate(recording.regions) if region.did]
    assert found.untouched[0] == sum(not region.did for region in recording.regions)
    for lane in found.lanes:
        written = any(did.written for number in lane.regions for did in recording.regions[number].did or ())
        assert any(mark.written for mark in lane.marks) == written
        assert all(memory_chart.LEFT <= mark.x <= memory_chart.LEFT + memory_chart.WIDE for mark in lane.marks)
    assert 0 < found.peak[0] <= sum(region.bytes for region in recording.regions)


def test_the_chart_of_many_regions_is_bounded(recording: facts.Report) -> None:
    region = replace(recording.regions[0], slots=[], code_of=[], named_by=[], did=[facts.Did(0, 0, 64)])
    many = [replace(region, address=4096 * number) for number in range(500)]
    found = memory_chart.memory_chart(replace(recording, regions=many))
    assert found
    assert len(found.lanes) == memory_chart.MOST + 1
    assert found.lanes[-1].title == f"{500 - memory_chart.MOST} smaller regions"


def test_there_is_no_chart_without_a_run(recording: facts.Report) -> None:
    unseen = [replace(region, did=None) for region in recording.regions]
    assert memory_chart.memory_chart(replace(recording, regions=unseen)) is None
    assert len(memory_chart.accesses(recording)) == len(recording.jobs)
