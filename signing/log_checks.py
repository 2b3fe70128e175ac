# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with a replay log.

First it is found out which entries the device wrote: by their MACs, or, without the log key, by following hashes
from an attested tail. What those say is true, whatever order they are in: the device gave each a number, a boot,
and the hash of the entry before it. The rest follows from that.
"""

from __future__ import annotations

import bisect
import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from signing.keys import KID_BYTES
from signing.replay_log import ZERO, Entry, Tail
from trace_format.schema.log import LogKind


class Fault(enum.Enum):
    """What can be wrong."""

    ALTERED = "altered"  # not what the device wrote
    FOREIGN = "foreign"  # no entry is this device's
    UNPROVEN = "unproven"  # without the log key: the attested tail does not lead to it
    DUPLICATE = "duplicate"  # a second copy
    REORDERED = "reordered"  # not where its number belongs
    GAP = "gap"  # entries are missing, later ones are there
    CUT_TAIL = "cut-tail"  # the last entries are missing
    FORK = "fork"  # two continuations of one entry: the device went on from an earlier state
    ROLL_BACK = "roll-back"  # the device's counters went back, or boots left no entry
    UNKNOWN_KIND = "unknown-kind"  # an entry about something that this version does not know
    OTHER_POLICY = "other-policy"  # a trace was accepted under a trust policy that is none of those given
    UNKNOWN_TRACE = "unknown-trace"  # an entry about a trace that is none of those given


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        fault: what it is.
        position: number of the entry in the file; None where no entry of the file is at fault.
        sequence: number that the device gave to the (first missing) entry; None where it is not known.
        text: a sentence.
    """

    fault: Fault
    position: int | None
    sequence: int | None
    text: str


@dataclass(frozen=True)
class Checked:
    """A log that was judged.

    Attributes:
        proven: the device's entries, each once, by their numbers; of a fork, both sides.
        findings: what is wrong; empty: nothing is.
    """

    proven: tuple[Entry, ...]
    findings: tuple[Finding, ...]


def check_log(
    entries: Sequence[Entry],
    *,
    key: bytes | None = None,
    tail: Tail | None = None,
    traces: Iterable[bytes] | None = None,
    policies: Iterable[bytes] | None = None,
) -> Checked:
    """Judge a log.

    Args:
        entries: at least one.
        key: the device's log key.
        tail: where the log ended: from the device itself, or attested. Without it nobody can tell whether the
            last entries are missing.
        traces: `subject`s of the only traces that the log should be about; None: any.
        policies: SHA-256 of the only trust policies under which a trace should have been accepted; None: any.

    Raises:
        ValueError: neither key nor tail is given, so nothing can be proven.
    """
    if key is not None:
        own = [entry for entry in entries if entry.is_of(key)]
        if not own:
            text = "no entry was written with this key: it is another device's log, or another device's key"
            return Checked((), (Finding(Fault.FOREIGN, None, None, text),))
        findings = list(_altered(entries, own))
    elif tail is not None:
        own, findings = _followed(entries, tail)
    else:
        raise ValueError("a log key or a tail is needed")
    # What an altered entry says is not believed, but its number explains a gap: it is reported once.
    claimed = {f.sequence for f in findings if f.sequence is not None}
    unique = _unique(own, findings)
    if unique:
        findings += _order(unique)
        findings += _gaps(unique, claimed)
        findings += _forks(unique)
        findings += _boots(unique)
        findings += _unknown_kinds(unique)
    if tail is not None:
        findings += _tail(unique, tail, claimed)
    if traces is not None:
        findings += _foreign_traces(unique, set(traces))
    if policies is not None:
        findings += _other_policies(unique, set(policies))
    proven = sorted(unique, key=lambda entry: (entry.sequence, entry.position))
    ordered = sorted(findings, key=lambda f: (len(entries) if f.position is None else f.position, f.fault.value))
    return Checked(tuple(proven), tuple(ordered))


def _altered(entries: Sequence[Entry], own: Sequence[Entry]) -> Iterator[Finding]:
    good = {entry.position for entry in own}
    for entry in entries:
        if entry.position not in good:
            text = f"entry {entry.position} is not what the device wrote: its MAC is of other bytes or another key"
            yield Finding(Fault.ALTERED, entry.position, entry.sequence, text)


def _followed(entries: Sequence[Entry], tail: Tail) -> tuple[list[Entry], list[Finding]]:
    """Entries that the tail's hash leads to, and those that it should lead to and does not."""
    by_hash = defaultdict(list)
    for entry in entries:
        by_hash[entry.hash].append(entry)
    own: list[Entry] = []
    wanted, expected = tail.hash, tail.entries
    while expected and wanted in by_hash and by_hash[wanted][0].sequence == expected - 1:
        own += by_hash[wanted]
        wanted, expected = by_hash[wanted][0].previous, expected - 1
    proven = {entry.position for entry in own}
    findings = []
    for entry in entries:
        if entry.position in proven:
            continue
        if entry.sequence == expected - 1:
            text = f"entry {entry.position} is not the one that entry number {expected} follows"
            text = text if own else f"entry {entry.position} is not the one that was attested"
            findings.append(Finding(Fault.ALTERED, entry.position, entry.sequence, text))
        else:
            text = f"entry {entry.position} is proven by nothing: the attested tail does not lead to it"
            findings.append(Finding(Fault.UNPROVEN, entry.position, entry.sequence, text))
    return own, findings


def _unique(own: Sequence[Entry], findings: list[Finding]) -> list[Entry]:
    """The entries in the file's order, without second copies, which become findings."""
    first: dict[bytes, Entry] = {}
    for entry in sorted(own, key=lambda entry: entry.position):
        if entry.raw in first:
            text = f"entry {entry.position} is a copy of entry {first[entry.raw].position}"
            findings.append(Finding(Fault.DUPLICATE, entry.position, entry.sequence, text))
        else:
            first[entry.raw] = entry
    return list(first.values())


def _order(unique: Sequence[Entry]) -> Iterator[Finding]:
    """The fewest entries that would have to move: all outside of a longest run whose numbers never fall.

    Numbers that two entries have are left out: there the two sides of a fork are.
    """
    twice = {number for number, same in _by_number(unique).items() if len(same) > 1}
    unique = [entry for entry in unique if entry.sequence not in twice]
    if not unique:
        return
    ends: list[int] = []  # smallest last number of a run of each length, and which entry that is
    at: list[int] = []
    before: list[int] = []
    for index, entry in enumerate(unique):
        place = bisect.bisect_right(ends, entry.sequence)
        before.append(at[place - 1] if place else -1)
        ends[place : place + 1] = [entry.sequence]
        at[place : place + 1] = [index]
    kept = set()
    index = at[-1]
    while index >= 0:
        kept.add(index)
        index = before[index]
    for index, entry in enumerate(unique):
        if index not in kept:
            text = f"entry {entry.position} has the number {entry.sequence}, which does not belong there"
            yield Finding(Fault.REORDERED, entry.position, entry.sequence, text)


def _gaps(unique: Sequence[Entry], claimed: set[int]) -> Iterator[Finding]:
    expected = 0
    for entry in sorted(unique, key=lambda entry: entry.sequence):
        if entry.sequence <= expected:
            expected = entry.sequence + 1
            continue
        # A gap may be long, and what is claimed in it is not: count, then name the first.
        inside = sorted(n for n in claimed if expected <= n < entry.sequence)
        missing = entry.sequence - expected - len(inside)
        if missing > 0:
            first = expected
            while first in inside:
                first += 1
            text = f"{numbers_text(first, entry.sequence - 1, missing)} before entry {entry.position}"
            yield Finding(Fault.GAP, entry.position, first, text)
        expected = entry.sequence + 1


def _forks(unique: Sequence[Entry]) -> Iterator[Finding]:
    by_number = _by_number(unique)
    for number, same in sorted(by_number.items()):
        followed: dict[bytes, Entry] = {}
        for entry in same:
            other = followed.setdefault(entry.previous, entry)
            if other is not entry:
                pair = f"{other.position} and {entry.position}"
                text = f"entries {pair} both have the number {number} and follow one entry"
                yield Finding(Fault.FORK, entry.position, number, text)
                continue
            before = by_number.get(number - 1, [])
            if (before and entry.previous not in {one.hash for one in before}) or (
                number == 0 and entry.previous != ZERO
            ):
                text = f"entry {entry.position} follows another entry {number - 1} than the one that is here"
                yield Finding(Fault.FORK, entry.position, number, text)


def _boots(unique: Sequence[Entry]) -> Iterator[Finding]:
    by_number = _by_number(unique)
    before = expected = 0
    for number in sorted(by_number):
        entry = by_number[number][0]
        starts = entry.kind is LogKind.BOOT
        text = ""
        if entry.boot < before + starts:
            text = f"entry {entry.position} is of boot {entry.boot}, after boot {before}: the counter went back"
        elif entry.boot > before + starts and number == expected:
            missing = boots_text(before + 1, entry.boot - starts)
            text = f"{missing} before entry {entry.position}, whose number is next"
        if text:
            yield Finding(Fault.ROLL_BACK, entry.position, number, text)
        before, expected = entry.boot, number + 1


def _tail(unique: Sequence[Entry], tail: Tail, claimed: set[int]) -> Iterator[Finding]:
    by_number = _by_number(unique)
    end = max({*by_number, *(number for number in claimed if number < tail.entries)}, default=-1) + 1
    if end < tail.entries:
        missing = tail.entries - end
        yield Finding(
            Fault.CUT_TAIL, None, end, f"{numbers_text(end, tail.entries - 1, missing)} at the end of the log"
        )
    elif tail.is_final and end > tail.entries:
        text = f"the device's tail is that of {tail.entries} entries, and it wrote {end}: it was set back"
        yield Finding(Fault.ROLL_BACK, None, tail.entries, text)
    if 0 < tail.entries <= end and by_number.get(tail.entries - 1):
        last = by_number[tail.entries - 1]
        if tail.hash not in {entry.hash for entry in last}:
            text = f"entry {last[0].position} is not the one that the tail is of"
            yield Finding(Fault.FORK, last[0].position, tail.entries - 1, text)
        elif tail.is_final and end == tail.entries and tail.boots > last[0].boot:
            text = f"{boots_text(last[0].boot + 1, tail.boots)} at the end of the log"
            yield Finding(Fault.ROLL_BACK, None, None, text)


def _unknown_kinds(unique: Sequence[Entry]) -> Iterator[Finding]:
    for entry in unique:
        if entry.kind is None:
            kinds = f"{min(LogKind):d} to {max(LogKind):d}"
            text = f"entry {entry.position}: expected a kind from {kinds}, found {entry.values['kind']}"
            yield Finding(Fault.UNKNOWN_KIND, entry.position, entry.sequence, text)


def _foreign_traces(unique: Sequence[Entry], known: set[bytes]) -> Iterator[Finding]:
    """One finding for each trace."""
    seen: set[bytes] = set()
    for entry in unique:
        subject = entry.subject
        if entry.kind is LogKind.BOOT or subject == ZERO or subject in known | seen:
            continue
        seen.add(subject)
        text = (
            f"entry {entry.position} is about the trace with the head {subject.hex()}, which is none of those "
            f"given (its signers call it {bytes(entry.values['trace_id']).hex()})"
        )
        yield Finding(Fault.UNKNOWN_TRACE, entry.position, entry.sequence, text)


def _other_policies(unique: Sequence[Entry], known: set[bytes]) -> Iterator[Finding]:
    """One finding for each policy."""
    seen: set[bytes] = set()
    for entry in unique:
        policy = entry.trust_policy
        if entry.kind is not LogKind.LOAD or policy in known | seen:
            continue
        seen.add(policy)
        found = f"the trust policy {policy[:KID_BYTES].hex()}, version {entry.trust_version}"
        words = f"{found}, which is none of those given" if policy else "no trust policy"
        text = f"entry {entry.position}: a trace was accepted under {words}"
        yield Finding(Fault.OTHER_POLICY, entry.position, entry.sequence, text)


def _by_number(unique: Sequence[Entry]) -> Mapping[int, list[Entry]]:
    found: dict[int, list[Entry]] = defaultdict(list)
    for entry in unique:
        found[entry.sequence].append(entry)
    return dict(found)


def numbers_text(first: int, last: int, count: int) -> str:
    """Which entries are missing: so many, from one number to another."""
    if count == 1:
        return f"entry number {first} is missing"
    return f"{count} entries, of the numbers {first} to {last}, are missing"


def boots_text(first: int, last: int) -> str:
    """Which boots left no entry."""
    return f"boot {first} left no entry" if first == last else f"boots {first} to {last} left no entry"
