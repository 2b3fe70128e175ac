# SPDX-License-Identifier: BSD-2-Clause
"""Judge a replay log without having it in memory: what `log_checks` finds, for logs of any length.

The faults follow from the log's runs (`log_runs.py`) and a few entries at their ends, which are read again. Memory
does not depend on the number of entries, only on that of irregularities, which has a limit. A finding is about all
entries of a stretch, where `log_checks` has one for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from signing.log_checks import Fault, Finding, boots_text, numbers_text
from signing.log_runs import CHUNK, ENTRY, Read, Run, Scan, Take, scan_log
from signing.replay_log import ZERO, Tail
from trace_format.schema.log import LogKind

Claims = list[tuple[int, int]]  # numbers that entries claim which are not believed: from, to before


@dataclass
class Judged:
    """A log that was judged.

    Attributes:
        findings: what is wrong; `position` is that in the log, and one finding may be about several entries.
        dropped: first position and count of entries that are copies, or proven by nothing.
        proven: how many of the device's entries there are.
        has_end: whether it was known where the log ended.
    """

    findings: list[Finding] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    proven: int = 0
    has_end: bool = False


def judge_log(read: Read, count: int, *, key: bytes | None, tail: Tail | None, take: Take) -> Judged:
    """Judge a log that may be longer than memory.

    Args:
        read: gives entries by their position. What it gives twice must not differ; if it does, that is a finding.
        count: how many entries there are.
        key: the device's log key; None: `tail` proves entries.
        tail: where the log ended.
        take: is given all entries in chunks. Without a key, what is proven is known only at the end: `dropped`.

    Raises:
        TooManyError: it has too many irregularities.
        ValueError: neither key nor tail is given.
    """
    if key is None and tail is None:
        raise ValueError("a log key or a tail is needed")
    scan = scan_log(read, count, key, take)
    found = Judged(has_end=tail is not None)
    if key is not None and count and not scan.runs:
        text = "no entry was written with this key: it is another device's log, or another device's key"
        found.findings.append(Finding(Fault.FOREIGN, None, None, text))
        return found
    runs = scan.runs
    claimed = [(number, number + 1) for _, number in scan.altered]
    found.findings += _altered(scan)
    if key is None:
        assert tail is not None
        runs = _followed(read, scan, tail, found, claimed)
    accepted = _accepted(read, runs, found)
    found.findings += _joints(read, accepted, claimed)
    found.findings += [
        Finding(
            Fault.UNKNOWN_KIND, at, number, f"entry {at}: expected a kind from 1 to {max(LogKind):d}, found {kind}"
        )
        for at, number, kind in scan.unknown
        if not any(first <= at < first + size for first, size in found.dropped)
    ]
    if tail is not None:
        found.findings += _tail(read, runs, accepted, tail, claimed)
    return found


def _altered(scan: Scan) -> Iterator[Finding]:
    """One finding for each stretch of such entries; the last has those that are only counted."""
    stretches: list[list[int]] = []  # position, count, number
    for at, number in scan.altered:
        if stretches and at == stretches[-1][0] + stretches[-1][1]:
            stretches[-1][1] += 1
        else:
            stretches.append([at, 1, number])
    for at, count, number in stretches:
        text = f"{_entries(at, count)} not what the device wrote: a MAC is of other bytes or another key"
        yield Finding(Fault.ALTERED, at, number, text)
    if more := scan.altered_count - len(scan.altered):
        yield Finding(Fault.ALTERED, None, None, f"{more} more entries are not what the device wrote")


def _followed(read: Read, scan: Scan, tail: Tail, found: Judged, claimed: Claims) -> list[Run]:
    """What an attested tail leads to, and copies of it; the rest is dropped."""
    own: list[Run] = []
    wanted, expected = tail.hash, tail.entries
    while expected:
        run = next((run for run in scan.runs if _has(read, run, expected - 1, wanted)), None)
        if run is None:
            break
        own.append(run.part(run.first, expected))
        wanted, expected = _entry(read, run.position)["previous"].tobytes(), run.first
    kept = list(own)
    for run in scan.runs:
        for piece in _without(run, own):
            part = piece
            for other in own:
                low, high = max(part.first, other.first), min(part.end, other.end)
                if low == part.first and low < high and (same := _alike(read, part, other, low, high)):
                    kept.append(part.part(low, low + same))
                    part = part.part(low + same, part.end)
            if part.count:
                found.dropped.append((part.position, part.count))
                found.findings += _unproven(part, expected, bool(own), claimed)
    return sorted(kept, key=lambda run: run.position)


def _unproven(part: Run, expected: int, any_proven: bool, claimed: Claims) -> Iterator[Finding]:
    number = expected - 1
    if part.first <= number < part.end:
        at = part.at(number)
        text = f"entry {at} is not the one that " + (
            f"entry number {expected} follows" if any_proven else "was attested"
        )
        claimed.append((number, number + 1))
        yield Finding(Fault.ALTERED, at, number, text)
    rest = part.count - (part.first <= number < part.end)
    if rest:
        where = f"{rest} of the entries from {part.position} on"
        text = f"{where} are proven by nothing: the attested tail does not lead there"
        yield Finding(Fault.UNPROVEN, part.position, part.first, text)
        claimed.append((part.first, part.end))


def _accepted(read: Read, runs: Sequence[Run], found: Judged) -> list[Run]:
    """Runs with each number once, in their order; copies, forks and what lies elsewhere become findings."""
    accepted: list[Run] = []
    sides: list[Run] = []  # what has a number that another accepted one has
    highest = 0
    for run in runs:
        copied, branch = _copies(read, run, accepted, sides, found)
        for part in _without(run, copied):
            pieces, others = _split(part, accepted, branch=branch)
            if others and not branch:
                number = others[0].first
                one = next(one for one in accepted if one.first <= number < one.end)
                pair = f"{one.at(number)} and {run.at(number)}"
                text = f"entries {pair} both have the number {number}: the device went on from an earlier state"
                found.findings.append(Finding(Fault.FORK, run.at(number), number, text))
            branch = branch or bool(others)
            for piece in pieces:
                if piece.first < highest and not piece.branch:
                    where = _entries(piece.position, piece.count)
                    text = f"{where} of numbers that belong elsewhere, from {piece.first} on"
                    found.findings.append(Finding(Fault.REORDERED, piece.position, piece.first, text))
                highest = max(highest, piece.end)
            found.proven += sum(piece.count for piece in (*pieces, *others))
            accepted += pieces
            sides += others
    return sorted(accepted, key=lambda run: run.first)


def _copies(
    read: Read, run: Run, accepted: Sequence[Run], sides: Sequence[Run], found: Judged
) -> tuple[list[Run], bool]:
    """Parts of a run that are there already, and whether the run is of a fork's other side."""
    copied, branch = [], False
    for others, is_side in ((accepted, False), (sides, True)):
        for other in others:
            low, high = max(run.first, other.first), min(run.end, other.end)
            if low < high and (same := _alike(read, run, other, low, high)):
                at = run.at(low)
                which = f"entry {other.at(low)}" if same == 1 else f"those from {other.at(low)} on"
                text = f"{_entries(at, same)} {'a copy' if same == 1 else 'copies'} of {which}"
                found.findings.append(Finding(Fault.DUPLICATE, at, low, text))
                found.dropped.append((at, same))
                copied.append(run.part(low, low + same))
                branch = branch or is_side
    return copied, branch


def _split(run: Run, accepted: Sequence[Run], *, branch: bool) -> tuple[list[Run], list[Run]]:
    """Parts of a run whose numbers no accepted one has, and those whose numbers one has."""
    pieces, others = [], []
    cursor = run.first
    overlapping = [other for other in accepted if other.first < run.end and run.first < other.end]
    for other in sorted(overlapping, key=lambda other: other.first):
        low, high = max(cursor, other.first), min(run.end, other.end)
        if cursor < low:
            pieces.append(run.part(cursor, low, branch=branch))
        others.append(run.part(low, high))
        cursor, branch = high, True
    if cursor < run.end:
        pieces.append(run.part(cursor, run.end, branch=branch))
    return pieces, others


def _joints(read: Read, accepted: Sequence[Run], claimed: Claims) -> Iterator[Finding]:
    """What is wrong between one run and the next: gaps, forks, boots."""
    expected, boot, digest = 0, 0, ZERO
    for run in accepted:
        first = _entry(read, run.position)
        if run.first > expected:
            missing, number = _missing(expected, run.first, claimed)
            if missing:
                text = f"{numbers_text(number, run.first - 1, missing)} before entry {run.position}"
                yield Finding(Fault.GAP, run.position, number, text)
        elif first["previous"].tobytes() != digest and not run.branch:
            text = f"entry {run.position} follows another entry {expected - 1} than the one that is here"
            yield Finding(Fault.FORK, run.position, run.first, text)
        starts = int(first["kind"]) == LogKind.BOOT
        number = int(first["boot"])
        if number < boot + starts:
            text = f"entry {run.position} is of boot {number}, after boot {boot}: the counter went back"
            yield Finding(Fault.ROLL_BACK, run.position, run.first, text)
        elif number > boot + starts and run.first == expected:
            text = f"{boots_text(boot + 1, number - starts)} before entry {run.position}, whose number is next"
            yield Finding(Fault.ROLL_BACK, run.position, run.first, text)
        last = _entry(read, run.at(run.end - 1))
        expected, boot, digest = run.end, int(last["boot"]), hashlib.sha256(last.tobytes()).digest()


def _missing(first: int, end: int, claimed: Claims) -> tuple[int, int]:
    """How many numbers of a gap nothing claims, and the first of them."""
    count, number, cursor = 0, first, first
    for low, high in sorted(claimed):
        if low > cursor and cursor < end:
            number = number if count else cursor
            count += min(low, end) - cursor
        cursor = max(cursor, high)
    if cursor < end:
        number = number if count else cursor
        count += end - cursor
    return count, number


def _tail(
    read: Read, runs: Sequence[Run], accepted: Sequence[Run], tail: Tail, claimed: Claims
) -> Iterator[Finding]:
    ends = {
        *(run.end for run in accepted),
        *(min(end, tail.entries) for first, end in claimed if first < tail.entries),
    }
    end = max(ends, default=0)
    if end < tail.entries:
        text = f"{numbers_text(end, tail.entries - 1, tail.entries - end)} at the end of the log"
        yield Finding(Fault.CUT_TAIL, None, end, text)
    elif tail.is_final and end > tail.entries:
        text = f"the device's tail is that of {tail.entries} entries, and it wrote {end}: it was set back"
        yield Finding(Fault.ROLL_BACK, None, tail.entries, text)
    number = tail.entries - 1
    last = next((run for run in accepted if run.first <= number < run.end), None)
    if last is None or tail.entries > end:
        return
    boot = int(_entry(read, last.at(number))["boot"])
    if not any(_has(read, run, number, tail.hash) for run in runs):
        text = f"entry {last.at(number)} is not the one that the tail is of"
        yield Finding(Fault.FORK, last.at(number), number, text)
    elif tail.is_final and end == tail.entries and tail.boots > boot:
        text = f"{boots_text(boot + 1, tail.boots)} at the end of the log"
        yield Finding(Fault.ROLL_BACK, None, None, text)


def _entry(read: Read, position: int) -> np.void:
    found: np.void = np.frombuffer(read(position, 1), ENTRY)[0]
    return found


def _has(read: Read, run: Run, number: int, digest: bytes) -> bool:
    """Whether a run has the entry with this number and hash."""
    return run.first <= number < run.end and hashlib.sha256(read(run.at(number), 1)).digest() == digest


def _alike(read: Read, one: Run, other: Run, low: int, high: int) -> int:
    """How many entries from number `low` on are the same in both."""
    number = low
    while number < high:
        count = min(1 if number == low else CHUNK, high - number)  # most runs differ at once
        a, b = read(one.at(number), count), read(other.at(number), count)
        if a != b:
            pairs = zip(np.frombuffer(a, ENTRY), np.frombuffer(b, ENTRY), strict=True)
            return number - low + next(n for n, (x, y) in enumerate(pairs) if x.tobytes() != y.tobytes())
        number += count
    return high - low


def _without(run: Run, taken: Sequence[Run]) -> Iterator[Run]:
    """What is left of a run without parts of it."""
    cursor = run.first
    for part in sorted(taken, key=lambda part: part.first):
        if run.position <= part.position < run.position + run.count:
            if cursor < part.first:
                yield run.part(cursor, part.first)
            cursor = part.end
    if cursor < run.end:
        yield run.part(cursor, run.end)


def _entries(at: int, count: int) -> str:
    return f"entry {at} is" if count == 1 else f"entries {at} to {at + count - 1} are"
