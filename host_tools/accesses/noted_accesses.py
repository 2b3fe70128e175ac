# SPDX-License-Identifier: BSD-2-Clause
"""What a recording's notes say of its jobs' accesses, so that `build` need not run them again.

`record` runs the jobs to find slots, and sees what each of them accesses. The note NOTE has an entry for each
compute job, in their order:

    {"id": "0f1e2d3c4b5a6978", "proved": true, "memory": ["fr 0x00300000 4096", "w 0x00f20000 4 28 8", ...]}

`memory` has runs of bytes: how they are accessed (letters of LETTERS), GPU address, size, and where it is not one
run but several alike, how many in all and how many bytes from one to the next, for these again, and once more.
`proved`: the code shows that other data lead to the same accesses (host_tools/accesses/proof.py); of other jobs,
a replay with other inputs showed the same.

A job does the same where the same decides what it does, and `id` is made of that: the registers that describe the
job, the bytes that are marked as ACCESS_COMMAND, and what the CPU writes between jobs. Where it is not what the
program has, the note is not of these jobs, and nothing is taken from it.
"""

from __future__ import annotations

import functools
import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from host_tools.accesses.by_job import one_of
from host_tools.accesses.job_starts import JobStarts
from host_tools.accesses.proof import Flags, Job
from host_tools.families.family import family_of
from host_tools.model.mappings import Mappings
from host_tools.model.memory import Memory
from host_tools.support.pages import pieces
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.actions import Columns, Op, actions_of
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES

NOTE = "accesses"
LETTERS = {"f": ACCESS_READ_FIRST, "r": ACCESS_READ, "w": ACCESS_WRITTEN, "c": ACCESS_COMMAND}
_ID_BYTES = 8
_MAX_AGAIN = 3  # as deep as accesses of a tensor are: columns, rows, channels


class Run(NamedTuple):
    """Bytes that a job accesses in the same way, and where more of them are: so many in all, so far apart."""

    flags: int
    address: int
    size: int
    again: tuple[tuple[int, int], ...] = ()  # innermost first: times, step in bytes

    @property
    def last(self) -> int:
        """Address of the last byte."""
        return self.address + self.size - 1 + sum((times - 1) * step for times, step in self.again)


def computing(memory: Memory) -> list[bool] | None:
    """Which of a recording's jobs are compute jobs; None: a note cannot say what this GPU's do."""
    starts = _starts(memory)
    return None if starts is None else [start is not None for start in starts]


def noted(memory: Memory, jobs: Sequence[Job], *, proved: bool) -> list[dict[str, Any]] | None:
    """The note on compute jobs; None: the program has other jobs, or one accesses what has no address.

    Args:
        memory: of a program.
        jobs: what all of its jobs do.
        proved: what the code of each shows holds.
    """
    starts = _starts(memory) or []
    addresses = _addresses(memory.mappings)
    if len(starts) != len(jobs):
        return None
    found = []
    for job, start in zip(jobs, starts, strict=True):
        if start is None:
            continue
        if not job.accesses.keys() <= addresses.keys():
            return None
        runs = _joined(_runs(job, addresses))
        identity = _identity(memory, job, start, addresses)
        holds = proved and not job.varies
        found.append({"id": identity, "proved": holds, "memory": [_text(run) for run in runs]})
    return found


class Noted:
    """A recording's note.

    Args:
        note: what notes have as NOTE.
    """

    def __init__(self, note: object) -> None:
        self._note = note
        self._read: tuple[Mappings, list[Job] | None] | None = None

    def jobs(self, memory: Memory) -> list[Job] | None:
        """What it says of a program's jobs, the same list while they are where they were; None: it is of others.

        Raises:
            TraceError: it is not of the form that the module's text says.
        """
        entries = _checked(self._note)
        starts = _starts(memory)
        if starts is None or len(starts) != len(entries):
            return None
        if self._read is None or not self._read[0].same_places(memory.mappings):
            self._read = memory.mappings, _read(entries, memory.mappings)
        jobs = self._read[1]
        if jobs is None:
            return None
        addresses = _addresses(memory.mappings)
        for job, entry, start in zip(jobs, entries, starts, strict=True):
            if start is None or _identity(memory, job, start, addresses) != entry["id"]:
                return None
        return jobs

    def jobs_at(self, mappings: Mappings) -> list[Job] | None:
        """What it says of its jobs, whatever the program has, with memory where some mappings have it.

        Pages that are mapped to one frame, which nobody writes, count together.

        Returns:
            None: one accesses what is not mapped.

        Raises:
            TraceError: as `jobs`.
        """
        return _read(_checked(self._note), mappings)


def _addresses(mappings: Mappings) -> dict[int, int]:
    """GPU address by frame, the first of several."""
    at = zip(mappings.frames[::-1].tolist(), (mappings.pages[::-1] * PAGE_BYTES).tolist(), strict=True)
    return dict(at)


def _read(entries: list[dict[str, Any]], mappings: Mappings) -> list[Job] | None:
    """The jobs; None: one accesses what is not mapped."""
    frames = dict(zip(mappings.pages.tolist(), mappings.frames.tolist(), strict=True))
    kept: dict[bytes, Flags] = {}
    found = []
    for entry in entries:
        accesses = _accesses([_run(text) for text in entry["memory"]], frames, kept)
        if accesses is None:
            return None
        found.append(Job(accesses, not entry["proved"]))
    return found


def _starts(memory: Memory) -> list[bytes | None] | None:
    """What is particular to each job but memory, in their order; None for one that is no compute job.

    None in place of all: registers do not describe jobs, or hold what only a replay knows.
    """
    gpu = memory.trace.profile
    family = family_of(gpu)
    describing = {r.index for name, r in gpu.registers.items() if family.describes_job.fullmatch(name)}
    starts = JobStarts(gpu)
    if family.follow is not None or not describing or gpu.address_spaces != 1:
        return None
    rows = np.concatenate([memory.prologue, memory.stream])
    columns = Columns(rows)
    at = np.flatnonzero(
        columns.is_op(Op.REG_WRITE, Op.REG_WRITE_KEPT) & np.isin(columns.register, [*describing, *starts.kinds])
    )
    written: dict[int, int] = {}
    found: list[bytes | None] = []
    begins: list[int] = []  # where compute jobs do
    for index, row in zip(at.tolist(), actions_of(rows[at]), strict=True):
        if row.op == Op.REG_WRITE_KEPT:
            return None
        if row.register in describing:
            written[row.register] = written.get(row.register, 0) & ~row.mask | row.value & row.mask
        if starts.of(row):
            computes = row.register in describing
            found.append(repr(sorted(written.items())).encode() if computes else None)
            begins += [index - len(memory.prologue)] if computes else []
    pages = dict(zip(memory.mappings.frames.tolist(), memory.mappings.pages.tolist(), strict=True))
    digest = hashlib.sha256(memory.trace.gpu.encode())
    for item in memory.cpu_writes:
        page = pages.get(item.to // PAGE_BYTES, 0)
        where = bisect_left(begins, item.before), page, item.to % PAGE_BYTES
        digest.update(repr(where).encode() + item.data)
    return [None if start is None else start + digest.digest() for start in found]


def _identity(memory: Memory, job: Job, start: bytes, addresses: dict[int, int]) -> str:
    """A digest of what decides what a job does."""
    digest = hashlib.sha256(start)
    for address, frame, mask in sorted((addresses[frame], frame, mask) for frame, mask in job.commands):
        page = memory.pages.get(frame)
        content = np.zeros(PAGE_BYTES, np.uint8) if page is None else page.content
        digest.update(address.to_bytes(8) + np.packbits(mask).tobytes() + content[mask].tobytes())
    return digest.digest()[:_ID_BYTES].hex()


def _runs(job: Job, addresses: dict[int, int]) -> list[Run]:
    """Runs of bytes, ascending, as long as they can be."""
    order = sorted((addresses[frame], frame) for frame in job.accesses)
    if not order:
        return []
    flags = np.concatenate([job.accesses[frame] for _, frame in order])
    bases = np.array([address for address, _ in order])
    breaks = flags[1:] != flags[:-1]
    breaks[PAGE_BYTES - 1 :: PAGE_BYTES] |= np.diff(bases) != PAGE_BYTES
    starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    sizes = np.diff(starts, append=len(flags))
    at = bases[starts // PAGE_BYTES] + starts % PAGE_BYTES
    rows = zip(flags[starts].tolist(), at.tolist(), sizes.tolist(), strict=True)
    return [Run(*row) for row in rows if row[0]]


def _joined(runs: Sequence[Run]) -> list[Run]:
    """The same with those that are alike, at equal distances, as one, and those again."""
    for _ in range(_MAX_AGAIN):
        runs = list(_joined_once(runs))
    return list(runs)


def _joined_once(runs: Sequence[Run]) -> Iterator[Run]:
    at = 0
    while at < len(runs):
        first, end = runs[at], at + 1
        step = runs[end].address - first.address if end < len(runs) else 0
        while (
            end < len(runs)
            and runs[end] == first._replace(address=runs[end].address)
            and runs[end].address - runs[end - 1].address == step
        ):
            end += 1
        yield first._replace(again=(*first.again, (end - at, step))) if end - at > 1 else first
        at = end


def _text(run: Run) -> str:
    letters = "".join(letter for letter, flag in LETTERS.items() if run.flags & flag)
    return " ".join([letters, f"{run.address:#010x}", *map(str, [run.size, *chain(*run.again)])])


def _checked(note: object) -> list[dict[str, Any]]:
    """The note's entries, of the right types."""
    for entry in note if isinstance(note, list) else [None]:
        match entry:
            case {"id": str(), "proved": bool(), "memory": [*texts], **rest} if not rest and all(
                isinstance(text, str) for text in texts
            ):
                continue
        raise TraceError(
            f"the note {NOTE!r} is damaged",
            expected="a list of jobs, each with id, proved, memory",
            found=repr(entry)[:80],
        )
    assert isinstance(note, list)
    return note


def _run(text: str) -> Run:
    letters, *words = text.split(" ")
    try:
        flags = sum(LETTERS[letter] for letter in set(letters))
        address, size, *numbers = (int(word, 0) for word in words)
        run = Run(flags, address, size, tuple(zip(numbers[::2], numbers[1::2], strict=True)))
    except (KeyError, ValueError):
        run = Run(0, 0, 0)
    good = run.flags > 0 and run.size > 0 and run.address >= 0 and len(run.again) <= _MAX_AGAIN
    reach = run.size  # what comes again lies behind all of what is before it
    for times, step in run.again:
        good &= times > 1 and step >= reach
        reach += (times - 1) * step
    if not good:
        raise TraceError(
            f"the note {NOTE!r} is damaged",
            expected=f"runs as 'frwc ADDRESS SIZE', and up to {_MAX_AGAIN} times TIMES STEP",
            found=repr(text)[:80],
        )
    return run


def _accesses(runs: Sequence[Run], frames: dict[int, int], kept: dict[bytes, Flags]) -> dict[int, Flags] | None:
    """A job's accesses by frame; None: it accesses what is not mapped.

    Args:
        runs: of the job.
        frames: by virtual page.
        kept: arrays, by content, of which equal ones are one.
    """
    found: dict[int, NDArray[np.uint8]] = {}
    try:
        for run in runs:
            _mark(found, run, frames)
    except KeyError:
        return None
    return {frame: one_of(flags, kept) if flags.flags.writeable else flags for frame, flags in found.items()}


def _mark(found: dict[int, NDArray[np.uint8]], run: Run, frames: dict[int, int]) -> None:
    """Mark the bytes of a run; KeyError: some are not mapped."""
    if run.again:
        _mark_several(found, run, frames)
        return
    for page, inside, _ in pieces(run.address, run.size):
        frame = frames[page]
        if inside.stop - inside.start == PAGE_BYTES and frame not in found:
            found[frame] = _whole(run.flags)
        else:
            _page(found, frame)[inside] |= np.uint8(run.flags)


def _mark_several(found: dict[int, NDArray[np.uint8]], run: Run, frames: dict[int, int]) -> None:
    first, last = run.address // PAGE_BYTES, run.last // PAGE_BYTES
    if last not in frames:  # before there is an array of that size
        raise KeyError(last)
    span = np.zeros((last - first + 1) * PAGE_BYTES, np.uint8)
    shape = [times for times, _ in reversed(run.again)]
    strides = [step for _, step in reversed(run.again)]
    as_strided(span[run.address % PAGE_BYTES :], (*shape, run.size), (*strides, 1))[...] = run.flags
    pages = span.reshape(-1, PAGE_BYTES)
    for number in np.flatnonzero(pages.any(axis=1)).tolist():
        frame = frames[first + number]
        if frame in found:
            _page(found, frame)[:] |= pages[number]
        else:
            found[frame] = pages[number]


def _page(found: dict[int, NDArray[np.uint8]], frame: int) -> NDArray[np.uint8]:
    """A page's flags, to be changed."""
    flags = found.get(frame)
    if flags is None or not flags.flags.writeable:
        flags = found[frame] = np.zeros(PAGE_BYTES, np.uint8) if flags is None else flags.copy()
    return flags


@functools.cache
def _whole(flags: int) -> Flags:
    """A page that is accessed alike all over, as most are."""
    page = np.full(PAGE_BYTES, flags, np.uint8)
    page.flags.writeable = False
    return page
