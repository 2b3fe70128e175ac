# SPDX-License-Identifier: BSD-2-Clause
"""Memory that fits a budget: what jobs only read comes piece by piece, before its first job (`--secure-memory`).

A device reads, checks and decodes a piece while an earlier job runs, into memory that is free by then. What is in
use when follows from what jobs access (host_tools/accesses/liveness.py). Code, and what else decides what a job
accesses, stays in the image, which nothing writes; so does memory of which it is not known for all data when it
is used. What is used twice, with many jobs between, is read twice, and its memory is free meanwhile. Where the
budget allows it, a piece has its memory up to two jobs early, so that it is read meanwhile. With what is left,
pieces stay for later replays: those first that are read twice, then those of the jobs that need most memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_times import job_times
from host_tools.accesses.liveness import Jobs
from host_tools.families.accesses import NotFollowedError
from host_tools.families.family import family_of
from host_tools.model.job_names import job_names
from host_tools.model.memory import Conflict, Memory
from host_tools.model.reading import RATE, reading
from host_tools.model.secure_memory import memory_for
from host_tools.model.timing import chip_of
from host_tools.passes.memory_cuts import cut_for_memory
from host_tools.passes.placement import Placed, Unit, place, pressure, runs, spread
from host_tools.passes.planning import REPLANS
from host_tools.passes.program import Program
from host_tools.passes.registry import Option, Pass
from host_tools.passes.streaming_report import Streamed, StreamingFacts
from host_tools.passes.units import during, early, filled_first, parts_of, units_of, used_by, working_units
from trace_format import packing
from trace_format.actions import MAP_EXECUTE
from trace_format.assembly import STREAMED_CHUNK_BYTES
from trace_format.errors import GramophoneError, TraceError
from trace_format.layout import HEADER_BYTES, SECTION_BYTES
from trace_format.schema import HASH_BYTES, MAX_PIECE_BYTES, MAX_PIECES, MAX_SECTIONS, PAGE_BYTES
from trace_format.slots import notes_with_splits
from trace_format.streamed import Piece, in_order
from trace_format.trace import Trace, notes_bytes

_PIECE_PAGES = MAX_PIECE_BYTES // PAGE_BYTES
_FINE_PAGES = 48  # of a piece, unless there would be too many: the GPU may wait for the end of one
_LEADS = (2, 1)  # jobs before its first one in which a piece's memory is its own, where the budget allows it
_ROUNDS = 3  # in which jobs that still need too much are cut again
_MOST_PARTS = 64  # of a job
_SHARES = 8  # a job's weights take one at most, if it can be cut: others are read into the rest meanwhile
_WORTH = 1.02  # pieces stay for later replays if the first one then takes at most this many times as long
_MOST_PIECES = MAX_PIECES * 3 // 4  # the others are for pieces whose frames do not lie together


def stream(program: Program) -> str:
    """Have devices read memory while jobs run, so that it fits a budget (`--secure-memory`)."""
    budget = int(program.asked[PASS.name])
    try:
        found = _fitted(program, budget)
    except (Conflict, NotFollowedError) as error:
        raise TraceError(f"--secure-memory: {error}") from None
    program.reports[PASS.name] = _report(found, budget)
    program.actions = found.actions
    program.replace(image=found.image, carveout_bytes=found.carveout_bytes, streamed=found.streamed)
    return ""


class _TooManyPieces(Conflict):
    """More than a device takes, because they lie in several places."""


def _fitted(program: Program, budget: int) -> Trace:
    """As `_fitted_with`, with larger pieces where there would be too many."""
    most = _MOST_PIECES
    uncut = program.trace(), program.pieces
    while True:
        try:
            return _fitted_with(program, budget, most)
        except _TooManyPieces:
            _restore(program, *uncut)
            most //= 2
            if not most:
                raise


def _fitted_with(program: Program, budget: int, most: int) -> Trace:
    """As `_Streaming.fitted`; jobs that need more than there is are cut first.

    Args:
        most: pieces, before any is torn apart.
    """
    uncut = program.trace(), program.pieces
    streaming, whys = _cut_jobs(program, budget, most)
    if streaming.least_bytes > budget:  # as for no memory at all, so that the least that an error names is enough
        _restore(program, *uncut)
        streaming, whys = _cut_jobs(program, 0, most)
    return streaming.fitted(budget, whys)


def _cut_jobs(program: Program, budget: int, most: int) -> tuple[_Streaming, dict[int, str]]:
    """The memory with jobs cut, and why those that need more than there is are not cut."""
    streaming = _Streaming(program, most)
    for number in range(_ROUNDS):
        wanted = streaming.too_large(budget, 1 if number else _SHARES)
        if not wanted:
            break
        before, kept = streaming, (program.trace(), program.pieces)
        whys = cut_for_memory(program, wanted)
        if program.trace().jobs == before.count:
            return before, whys
        streaming = _Streaming(program, most)
        if streaming.least_bytes > max(before.least_bytes, budget):  # what more jobs take is more than they save
            _restore(program, *kept)
            return before, {}
    return streaming, {}


def _restore(program: Program, trace: Trace, pieces: Sequence[int]) -> None:
    """Let a program be as it was before its jobs were cut."""
    program.actions = trace.actions
    program.replace(notes=trace.notes)
    program.pieces = pieces


class _Streaming:
    """The memory of a trace as units, and traces in which they have places.

    Attributes:
        lead: how many jobs before its first one a piece's memory is its own, at least.
        working: units of memory that is written, or not known.
        pieces: units of memory that jobs only read.
    """

    lead = 0

    def __init__(self, program: Program, most: int = _MOST_PIECES) -> None:
        self._profile, self._most = program.profile, most
        family = family_of(program.profile)
        spans = family.spans(program)  # jobs may run for it, and memory is read anew then
        if not spans:
            raise Conflict("its caches are not written back between jobs, or jobs run before a replay starts")
        if program.memory.prepares:
            raise Conflict(
                "jobs prepare parameters before a replay starts: 'gramophone build --param' runs these itself"
            )
        self._jobs = program.jobs()
        self.count = len(self._jobs)
        if not self.count or self.count != program.trace().jobs:
            raise Conflict("its jobs are not announced one by one")
        self.memory = program.memory
        self._base = program.trace()
        self._names = job_names(self._base)
        written = self.memory.frames - self.memory.in_image()
        self.working = working_units(program, spans, written, filled_first(self.memory))
        if family.follow is None:
            used = {frame: used_by(numbers, self.count) for frame, numbers in program.uses(self.count).items()}
        else:
            used = {frame: during(*span, self.count) for frame, span in spans.items()}
        self.pieces = self._pieces(used)

    def _pieces(self, read: Mapping[int, Jobs]) -> list[Unit]:
        commands = {frame for job in self._jobs for frame, _ in job.commands}
        slots = self.memory.frames_of(self._base.slots)
        mappings = self.memory.mappings
        code = mappings.frames[mappings.flags & MAP_EXECUTE != 0] if self._profile.forbids_execution else []
        frames = (self.memory.in_image() & read.keys()) - commands - slots - set(code)
        size = min(max(_FINE_PAGES, -(-len(frames) * 4 // (3 * self._most))), _PIECE_PAGES)
        found = [
            part
            for unit in units_of(self.memory, {frame: read[frame] for frame in frames})
            for part in parts_of(unit, size)
        ]
        found.sort(key=lambda unit: -len(unit.frames))
        return found[: self._most]

    @cached_property
    def least(self) -> Trace:
        """With no piece resident, none early."""
        return self._trace(())

    @property
    def least_bytes(self) -> int:
        """Secure memory that this takes."""
        return secure_bytes(self.least)

    def too_large(self, budget: int, shares: int) -> dict[int, int]:
        """Jobs that need more than there is, if fewer weights at once would help, and into how many to cut each.

        Half of what is left for weights is for those of the next piece, which are read meanwhile. Where none are
        enough, as many are wanted as let the network fit into the least memory.

        Args:
            shares: where not all weights fit, a job may take 1 / shares of the room for weights.
        """
        held = pressure(self.working, self.count)
        weights = pressure(self.pieces, self.count)
        others = self.least_bytes - int((held + weights).max()) * PAGE_BYTES
        least = int((held + np.minimum(2 * -(-weights // _MOST_PARTS), weights)).max())
        room = max((budget - others) // PAGE_BYTES, least)
        if int(held.max()) + sum(len(unit.frames) for unit in self.pieces) <= room:
            return {}
        parts = np.maximum(2, shares) * weights // np.maximum(room - held, 1) + 1
        too_large = (held + weights > room) | (shares * weights > room - held) & (shares > 1)
        return {job: min(int(parts[job]), _MOST_PARTS) for job in np.flatnonzero(too_large).tolist()}

    def fitted(self, budget: int, whys: Mapping[int, str]) -> Trace:
        """A trace that takes at most so much secure memory, with as many resident pieces as fit.

        Args:
            whys: why jobs that need more are not cut.

        Raises:
            TraceError: there is none; names the smallest budget for which there is one, and the job that sets it.
        """
        full = pressure([*self.working, *self.pieces], self.count)
        if self.least_bytes > budget:
            job = int(full.argmax())
            name = f" ({self._names[job]})" if self._names else ""
            why = f", and is not cut: {whys[job]}" if job in whys else ""
            raise TraceError(
                f"--secure-memory: job {job}{name} needs {int(full[job]) * PAGE_BYTES} bytes at once{why}",
                expected=f"at least {self.least_bytes} bytes of secure memory",
                found=budget,
            )
        fits = self.least
        for lead in _LEADS:
            self.lead = lead
            if secure_bytes(tried := self._trace(())) <= budget:
                fits = tried
                break
            self.lead = 0
        stay = self._resident(full, (budget - secure_bytes(fits)) // PAGE_BYTES)
        while stay and secure_bytes(tried := self._trace(stay)) > budget:  # it has more actions, or more gaps
            stay.pop()
        alone = self._spread(fits, (), budget)
        if not stay:
            return alone
        found = self._spread(tried, stay, budget)
        job_us = self._job_us()
        if not job_us:
            return found
        kept, again = (reading(one.streamed, job_us, RATE).us for one in (found, alone))
        return found if kept <= again * _WORTH else alone

    def _job_us(self) -> list[float]:
        """What each job takes; none: the time model does not know it."""
        try:
            return [time.us for _, time in job_times(self.least, chip_of(self.least.gpu))]
        except GramophoneError:
            return []

    def _spread(self, fits: Trace, stay: Sequence[Unit], budget: int) -> Trace:
        """The same, with pieces where memory is free the longest: the rest of the budget is for reading early."""
        fixed = fits.carveout_bytes // PAGE_BYTES - self._placed(self._others(stay)).pages
        pages = fits.carveout_bytes // PAGE_BYTES + (budget - secure_bytes(fits)) // PAGE_BYTES
        others, torn = self._others(stay), True
        while others and pages * PAGE_BYTES > fits.carveout_bytes:
            placed = spread(self.working, others, self.count, pages - fixed, torn=torn)
            if placed is None:
                break
            try:
                tried = self._emitted(stay, others, placed, 0)
            except Conflict:  # in too many parts
                if not torn:
                    break
                torn = False
                continue
            if secure_bytes(tried) <= budget:
                return tried
            pages -= -(-(secure_bytes(tried) - budget) // PAGE_BYTES)
        return fits

    def _resident(self, full: NDArray[np.int64], room: int) -> list[Unit]:
        """Pieces that stay, if memory may have so many pages more than without; the fullest jobs' first."""
        soon = [(unit, early(unit, self.lead)) for unit in self.pieces]
        needed = pressure([*self.working, *(replace(unit, jobs=jobs) for unit, jobs in soon)], self.count)
        room += int(needed.max())
        stay: list[Unit] = []
        for unit, jobs in sorted(soon, key=lambda item: _rank(item[0], full)):
            without = needed - jobs * len(unit.frames)
            if int(without.max()) + len(unit.frames) <= room:
                stay.append(unit)
                room -= len(unit.frames)
                needed = without
        return stay

    def _placed(self, pieces: Sequence[Unit]) -> Placed:
        """Working memory, and pieces that are not resident, together."""
        soon = [replace(unit, jobs=early(unit, self.lead)) for unit in pieces]
        return place([*self.working, *soon], self.count)

    def _trace(self, stay: Sequence[Unit]) -> Trace:
        """The trace in which some pieces are resident."""
        pass_by = self._others(stay)
        return self._emitted(stay, pass_by, self._placed(pass_by), self.lead)

    def _others(self, stay: Sequence[Unit]) -> list[Unit]:
        """Pieces that are not resident."""
        return [unit for unit in self.pieces if not any(unit is other for other in stay)]

    def _emitted(self, stay: Sequence[Unit], pass_by: Sequence[Unit], placed: Placed, lead: int) -> Trace:
        """The trace in which working memory and pieces that are not resident, from `lead` jobs on, have places."""
        memory = self.memory.copy()
        content = {}
        for unit in self.pieces:
            for frame in unit.frames:
                content[frame] = memory.pages.pop(frame).content
        kept = sorted(memory.in_image())
        target = {frame: index for index, frame in enumerate(kept)}
        image_pages = _image_pages(memory, target)
        at = image_pages
        rows = []
        for unit in stay:
            target |= {frame: at + i for i, frame in enumerate(unit.frames)}
            data = b"".join(content[frame].tobytes() for frame in unit.frames)
            rows.append(Piece(at, 0, unit.first, self.count - 1, data, resident=True))
            at += len(unit.frames)
        for unit, frames in zip([*self.working, *pass_by], placed.at, strict=True):
            target |= {frame: at + new for frame, new in zip(unit.frames, frames.tolist(), strict=True)}
        for unit, frames in zip(pass_by, placed.at[len(self.working) :], strict=True):
            for part in runs(frames):
                data = b"".join(content[frame].tobytes() for frame in unit.frames[part])
                where = slice(int(frames[part][0]), int(frames[part][-1]) + 1)
                for first, last in unit.times:
                    jobs = _free_from(placed, where, first - lead), first, last
                    rows.append(Piece(at + where.start, *jobs, data))
        memory.move(target)
        memory.trace = self._base
        memory.carveout_bytes = (at + placed.pages) * PAGE_BYTES
        if len(rows) > MAX_PIECES:
            raise _TooManyPieces(f"it would have {len(rows)} pieces, and a device takes at most {MAX_PIECES}")
        return replace(memory.emit(), streamed=in_order(rows))


def _image_pages(memory: Memory, target: Mapping[int, int]) -> int:
    """Size of the image that remains: pages at their new frames, and what is uploaded."""
    alone = memory.copy()
    high = len(target)
    others = sorted(alone.frames - target.keys())
    alone.move({**target, **{frame: high + i for i, frame in enumerate(others)}})
    return alone.packing().image_pages


def _rank(unit: Unit, full: NDArray[np.int64]) -> tuple[int, int, int]:
    """The lower, the rather a piece stays for later replays."""
    return -len(unit.times), -int(full[unit.jobs].max()), unit.first


def _free_from(placed: Placed, where: slice, first: int) -> int:
    """The first job from which on memory is used by nothing but the piece that is its own from job `first` on."""
    used = np.flatnonzero(placed.busy[: max(first, 0), where].any(axis=1))
    return int(used[-1]) + 1 if len(used) else 0


def secure_bytes(trace: Trace) -> int:
    """Secure memory that a device with one key takes for a streamed trace, if nothing of it packs."""
    slots = len(trace.slots) * packing.size_of("slot")
    stored = {id(piece.data): len(piece.data) for piece in trace.streamed}  # one that is read twice is stored once
    content = sum(stored.values()) + len(trace.image) + trace.actions.nbytes
    content += len(notes_bytes(notes_with_splits(trace.notes, trace.slots)))
    hashes = HASH_BYTES * (content // STREAMED_CHUNK_BYTES + 2)
    rows = len(trace.streamed) * packing.size_of("piece")
    head = HEADER_BYTES + MAX_SECTIONS * SECTION_BYTES + packing.size_of("manifest") + slots + hashes + rows
    return memory_for(trace, head, STREAMED_CHUNK_BYTES)


def _report(trace: Trace, budget: int) -> Streamed:
    pieces = trace.streamed
    again = sum(len(piece.data) for piece in pieces if not piece.resident)
    return Streamed(
        budget,
        secure_bytes(trace),
        len(pieces),
        sum(len(piece.data) for piece in pieces if piece.first_job == 0),
        again,
        sum(len(piece.data) for piece in pieces) - again,
    )


PASS = Pass(
    REPLANS,
    "Have devices read memory while jobs run, so that it fits a budget (`--secure-memory`).",
    stream,
    Option(
        "--secure-memory",
        "BYTES",
        "Fit the trace into BYTES of secure memory: devices read weights while jobs run.",
        "streaming",
        StreamingFacts,
    ),
)
