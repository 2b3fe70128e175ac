# SPDX-License-Identifier: BSD-2-Clause
"""Comments on a trace's jobs: what describes each, and its code beside the bytes of the image that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from host_tools.accesses.job_starts import JobStarts
from host_tools.families.family import family_of
from host_tools.families.listing import Descriptor, Listing
from host_tools.model.parts import part
from host_tools.support.results import Count, Result
from host_tools.text.image_lines import GROUP_BYTES
from host_tools.text.places import Places
from host_tools.text.writer import Annotations
from trace_format.actions import Op, actions_of
from trace_format.trace import Trace


@dataclass(frozen=True)
class StartedJob:
    """A job: index of the action that starts it, its number in the replay, and what it is."""

    action: int
    number: int
    listing: Listing


def started_jobs(trace: Trace, places: Places) -> Iterator[StartedJob]:
    """The jobs of a trace in order; `places` is as it is when each of them is started.

    BuildError: the virtual GPU, whose disassembler is used, cannot be compiled.
    """
    gpu, family = trace.profile, family_of(trace.profile)
    starts = JobStarts(gpu)
    written: dict[int, int] = {}
    number = -1

    def register(name: str) -> int:
        return written.get(gpu.register(name).index, 0)

    for index, row in enumerate(actions_of(trace.actions)):
        places.apply(row)
        if row.op == Op.JOB:
            number = row.number
        elif row.op == Op.REG_WRITE_KEPT:
            written.pop(row.register, None)
        elif row.op == Op.REG_WRITE:
            written[row.register] = written.get(row.register, 0) & ~row.mask | row.value & row.mask
            job = starts.of(row)
            if job is not None and family.list_job is not None:
                yield StartedJob(index, number, family.list_job(gpu, job, register, places.read))


def annotations_of(trace: Trace) -> Annotations:
    """Comments for `text_of`."""
    found = Annotations()
    coded: set[int] = set()  # offsets whose clauses have been put down
    parts = [(row.first_action, part(trace, row)) for row in trace.networks] or [(0, trace)]
    for first, own in parts:
        places = Places(own.image)
        for job in started_jobs(own, places):
            found.actions[first + job.action] = list(_about(job, places))
            _mark(found, job, places, coded)
    return found


class DescriptorFields(Result):
    """A descriptor.

    Attributes:
        address: GPU address; null: it lies in registers.
        fields: All fields; addresses are texts.
    """

    name: str
    address: Count | None
    bytes: Count
    fields: dict[str, int | str]


class Code(Result):
    """An instruction.

    Attributes:
        text: In Mesa's notation.
    """

    address: Count
    bytes: Count
    text: str


class Data(Result):
    """Memory that a descriptor names."""

    name: str
    address: Count
    bytes: Count


class JobFields(Result):
    """A job, as far as registers and memory say it.

    Attributes:
        action: Index of the action that starts it.
        number: Of the job in the replay; null: before the first.
        remarks: What is missing or odd.
    """

    action: Count
    number: Count | None
    kind: str
    address_space: Count
    descriptors: list[DescriptorFields]
    code: list[Code]
    data: list[Data]
    remarks: list[str]


def job_fields(trace: Trace) -> list[JobFields]:
    """The jobs of a trace for programs."""
    return [
        JobFields(
            action=job.action,
            number=job.number if job.number >= 0 else None,
            kind=job.listing.kind,
            address_space=job.listing.space,
            descriptors=[
                DescriptorFields(d.what, d.va if d.va >= 0 else None, d.size, d.fields)
                for d in job.listing.descriptors
            ],
            code=[Code(i.va, i.size, i.text) for i in job.listing.code],
            data=[Data(*row) for row in job.listing.data],
            remarks=job.listing.remarks,
        )
        for job in started_jobs(trace, Places(trace.image))
    ]


def _about(job: StartedJob, places: Places) -> Iterator[str]:
    listing = job.listing
    where = f" in as{listing.space}" if listing.space else ""
    yield (f"job {job.number}, " if job.number >= 0 else "before the first job: ") + listing.kind + where
    for descriptor in listing.descriptors:
        yield f"  {descriptor.what}{_at(descriptor.va)}: {_fields(descriptor)}"
    if listing.code:
        first, last = listing.code[0], listing.code[-1]
        offset = _offset(places, listing.space, first.va, first.size)
        there = f"at {offset:#010x} in the image" if offset is not None else "not in the image"
        of = "instructions" if first.size <= GROUP_BYTES else "clauses"
        reach = f"{first.va:#010x}..{last.va + last.size - 1:#010x}"
        yield f"  code at {reach}: {len(listing.code)} {of}, {there}"
    for what, va, size in listing.data:
        offset = _offset(places, listing.space, va, size)
        there = f"at {offset:#010x} in the image" if offset is not None else "not in one piece in the image"
        yield f"  {what} at {va:#010x}: {size} bytes, {there}"
    yield from (f"  {remark}" for remark in listing.remarks)


def _at(va: int) -> str:
    return f" at {va:#010x}" if va >= 0 else ""


def _fields(descriptor: Descriptor) -> str:
    """The fields that are not zero."""
    words = [f"{name} {value}" for name, value in descriptor.fields.items() if value not in (0, "0x0")]
    return ", ".join(words) or "all zero"


def _offset(places: Places, space: int, va: int, size: int) -> int | None:
    """Where in the image bytes lie; None: not there, or not in one piece."""
    offsets = places.offsets(space, va, size)
    if offsets is None or offsets[0] < 0 or not np.array_equal(offsets, np.arange(offsets[0], offsets[0] + size)):
        return None
    return int(offsets[0])


def _mark(found: Annotations, job: StartedJob, places: Places, coded: set[int]) -> None:
    listing, marks = job.listing, found.marks
    for instruction in listing.code:
        offset = _offset(places, listing.space, instruction.va, instruction.size)
        if offset is None:
            continue
        if instruction.size <= GROUP_BYTES:
            marks.beside.setdefault(offset, (instruction.size, instruction.text))
        elif offset not in coded:
            coded.add(offset)
            marks.above.setdefault(offset, []).extend(instruction.text.split("\n"))
            marks.shown.append((offset, offset + instruction.size))
    pieces = [(d.what, d.va, d.size) for d in listing.descriptors if d.va >= 0] + listing.data
    if listing.code:
        pieces.append(("code", listing.code[0].va, listing.code[0].size))
    for what, va, size in pieces:
        offset = _offset(places, listing.space, va, size)
        if offset is not None:
            lines = marks.above.setdefault(offset, [])
            whose = f"of job {job.number}" if job.number >= 0 else "from before the first job"
            line = f"{what} {whose}, at {va:#010x}"
            if line not in lines:
                lines.append(line)
            marks.shown.append((offset, offset + size))
