# SPDX-License-Identifier: BSD-2-Clause
"""A trace's jobs as the layers of its network: consecutive jobs of one name are a layer, and layers make blocks.

Names are what the recording says (`model.job_names`), or those of the weights; for people only. A job without
either is a layer by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from host_tools.audit.report import facts
from host_tools.audit.report.facts import Job, Node, Report

PREPARES = "prepares weights"
PREPARATION = "preparation of weights"
IDLE = "no data of others"
MANY = 40  # nodes of a picture, from which on chains are folded
LONGEST = 12  # layers in a chain that is folded
PREFIX = re.compile(r"(.*?\d+)[/._-]")  # of layers that belong together: block0_norm1, /model.4/cv1
NAMED = re.compile(r"(.+) \((\w+)\)")  # a layer and its type, as `record` writes them
WEIGHTS = (facts.TRACE, facts.CLEARED, facts.NOBODY)  # what is no result of a job


@dataclass(frozen=True)
class Layer:
    """Consecutive jobs of one name.

    Attributes:
        title, kind: its name and its type.
        jobs: their numbers.
        constants: bytes of the trace, and of parameters, that it reads.
        share: of the time, or of what stands for it, in per cent; None: nothing does.
    """

    title: str
    kind: str
    jobs: tuple[int, ...]
    us: float | None
    instructions: int | None
    read: int | None
    written: int | None
    constants: int
    share: float | None


@dataclass(frozen=True)
class Part:
    """What a picture has as one node: layers by their places, and the title."""

    title: str
    layers: tuple[int, ...]


def total(jobs: Iterable[Job], what: Callable[[Job], float | None]) -> float | None:
    """The sum of a figure; None where it is not known of all."""
    found = [what(job) for job in jobs]
    known = [value for value in found if value is not None]
    return sum(known) if found and len(known) == len(found) else None


def measure(report: Report) -> tuple[str, Callable[[Job], float | None] | None]:
    """What shares are of, in words, and a job's figure; None: there is nothing to share."""
    if total(report.jobs, lambda job: job.us):
        return "time that a model estimates", lambda job: job.us
    if total(report.jobs, lambda job: job.instructions):
        return "shader instructions that the virtual GPU executed", lambda job: job.instructions
    return "", None


def layers(report: Report) -> list[Layer]:
    """All layers, in the order of their jobs."""
    titles = _titles(report)
    constants: Counter[int] = Counter()
    parameters = {slot.name for slot in report.slots if slot.kind == "parameter"}
    for edge in report.flow.edges:
        if edge.target.job is not None and (edge.source.kind == facts.TRACE or edge.source.slot in parameters):
            constants[edge.target.job] += edge.bytes
    _, figure = measure(report)
    whole = total(report.jobs, figure) if figure else None
    found = []
    for (title, kind), group in groupby(report.jobs, lambda job: titles[job.number]):
        jobs = list(group)
        mine = total(jobs, figure) if figure else None
        instructions, read, written = (
            None if value is None else int(value)
            for value in (
                total(jobs, lambda job: job.instructions),
                total(jobs, lambda job: job.bytes_read),
                total(jobs, lambda job: job.bytes_written),
            )
        )
        found.append(
            Layer(
                title,
                kind,
                tuple(job.number for job in jobs),
                total(jobs, lambda job: job.us),
                instructions,
                read,
                written,
                sum(constants[job.number] for job in jobs),
                100 * mine / whole if whole and mine is not None else None,
            )
        )
    return found


def _titles(report: Report) -> list[tuple[str, str]]:
    """Name and type of each job's layer: what the recording says, else whose weights it reads, if they have names.

    Weights may come by way of jobs that prepare them, which no input reaches.
    """
    parameters = {slot.name for slot in report.slots if slot.kind == "parameter"}
    named: dict[int, list[str]] = {}
    sources: dict[int, list[int]] = {}
    for edge in report.flow.edges:
        if edge.target.job is not None and edge.source.slot in parameters:
            named.setdefault(edge.target.job, []).append(str(edge.source.slot))
        elif edge.target.job is not None and edge.source.job is not None:
            sources.setdefault(edge.target.job, []).append(edge.source.job)
    reached = _reached(report)
    stems = {number: {name.rpartition(".")[0] for name in names} for number, names in named.items()}
    found = []
    for job in report.jobs:
        mine = set(stems.get(job.number, ()))
        if job.number in reached:
            for source in sources.get(job.number, ()):
                mine |= stems.get(source, set()) if source not in reached else set()
        elif not mine:
            mine = {stem for source in sources.get(job.number, ()) for stem in stems.get(source, ())}
            stems[job.number] = mine
        stem = next(iter(mine)) if len(mine) == 1 else ""
        if match := NAMED.fullmatch(job.name):
            found.append((match[1], match[2]))
        elif job.name or stem:
            found.append((job.name or stem, job.kind if job.number in reached or not reached else PREPARES))
        else:
            found.append((f"job {job.number}", job.work or job.kind))
    return found


def _reached(report: Report) -> set[int]:
    """Jobs that values of inputs reach."""
    inputs = {slot.name for slot in report.slots if slot.kind == "input"}
    reached: set[int] = set()
    for edge in report.flow.edges:  # in the order of who reads
        if edge.target.job is not None and (edge.source.slot in inputs or edge.source.job in reached):
            reached.add(edge.target.job)
    return reached


def edges(report: Report, place: Callable[[Node], int | None]) -> dict[tuple[int, int], int]:
    """Bytes between nodes of a picture, by the places of both."""
    found: Counter[tuple[int, int]] = Counter()
    for edge in report.flow.edges:
        source, target = place(edge.source), place(edge.target)
        if source is not None and target is not None and source != target:
            found[source, target] += edge.bytes
    return dict(found)


def each(found: Sequence[Layer]) -> list[Part]:
    """Every layer by itself."""
    return [Part(layer.title, (number,)) for number, layer in enumerate(found)]


def preparing(report: Report, found: Sequence[Layer]) -> tuple[int, ...]:
    """Layers that no input reaches and others read, by their places: they make of weights what these take."""
    reached = _reached(report)
    read = {edge.source.job for edge in report.flow.edges}
    return tuple(
        at
        for at, layer in enumerate(found)
        if reached and not reached.intersection(layer.jobs) and read.intersection(layer.jobs)
    )


def idle(report: Report, found: Sequence[Layer]) -> tuple[int, ...]:
    """Layers that neither read nor wrote what others did, by their places."""
    ends = {node.job for edge in report.flow.edges for node in (edge.source, edge.target)}
    return tuple(at for at, layer in enumerate(found) if not ends.intersection(layer.jobs))


def folded(report: Report, found: Sequence[Layer]) -> list[Part]:
    """Layers in blocks: those whose names begin alike, and where that is not enough, chains.

    What prepares weights is one block, and so is what has no part in the data flow.
    """
    parts: list[Part] = []
    apart = [(PREPARATION, preparing(report, found)), (IDLE, idle(report, found))]
    apart = [(title, layers) for title, layers in apart if len(layers) > 1]
    elsewhere = {number for _, layers in apart for number in layers}
    for number, layer in enumerate(found):
        if number in elsewhere:
            continue
        match = PREFIX.match(layer.title)
        if match and parts and parts[-1].title == match[1]:
            parts[-1] = Part(match[1], (*parts[-1].layers, number))
        else:
            parts.append(Part(match[1] if match else layer.title, (number,)))
    parts = [part if len(part.layers) > 1 else Part(found[part.layers[0]].title, part.layers) for part in parts]
    parts = _chains(report, found, parts) if len(parts) > MANY else parts
    return [*(Part(title, layers) for title, layers in apart), *parts]


def _chains(report: Report, found: Sequence[Layer], parts: Sequence[Part]) -> list[Part]:
    """Parts of which each is read by the next one only, and the next one reads no other."""
    part_of = {job: at for at, part in enumerate(parts) for layer in part.layers for job in found[layer].jobs}
    between = edges(report, lambda node: part_of.get(node.job) if node.job is not None else None)
    readers = Counter(source for source, _ in between)
    sources = Counter(target for _, target in between)
    chains: list[list[Part]] = []
    for at, part in enumerate(parts):
        joined = (at - 1, at) in between and readers[at - 1] == 1 and sources[at] == 1
        if chains and joined and len(chains[-1]) < LONGEST:
            chains[-1].append(part)
        else:
            chains.append([part])
    return [
        chain[0]
        if len(chain) == 1
        else Part(
            f"{chain[0].title} … {chain[-1].title}", tuple(number for part in chain for number in part.layers)
        )
        for chain in chains
    ]
