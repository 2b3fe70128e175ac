# SPDX-License-Identifier: BSD-2-Clause
"""Logs judged in runs: the same verdict as that of `log_checks`, whatever is done to a log."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signing import log_runs
from signing.log_checks import check_log
from signing.log_runs import TooManyError
from signing.long_log import Judged, judge_log
from signing.replay_log import ENTRY_BYTES, Tail, read_log
from tests.support.log_samples import KEYS, TRACES, LoggingDevice, sample
from trace_format.schema.log import LogKind

DEVICE = sample()
LOG = tuple(DEVICE.entries)
ATTESTED = dataclasses.replace(DEVICE.tail, is_final=False)


def judged(entries: Sequence[bytes], key: bytes | None = KEYS.log, tail: Tail | None = DEVICE.tail) -> Judged:
    data = b"".join(entries)

    def read(first: int, count: int) -> bytes:
        return data[first * ENTRY_BYTES : (first + count) * ENTRY_BYTES]

    seen: list[int] = []
    found = judge_log(
        read, len(entries), key=key, tail=tail, take=lambda at, rows, good: seen.extend(good.tolist())
    )
    assert len(seen) == len(entries)
    if key is not None and seen.count(True):
        assert seen.count(True) - sum(count for _, count in found.dropped) == found.proven
    return found


def restored(keep: int) -> list[bytes]:
    other = DEVICE.restored(keep)
    other.session(TRACES[2], replays=9)
    return other.entries[keep:]


def forked(keep: int) -> list[bytes]:
    return [*LOG, *restored(keep)]


def flipped(entry: bytes, bit: int) -> bytes:
    return entry[: bit // 8] + bytes([entry[bit // 8] ^ 1 << bit % 8]) + entry[bit // 8 + 1 :]


def unknown_kind() -> list[bytes]:
    device = DEVICE.restored(len(LOG))
    device.write(cast(LogKind, 99), TRACES[0])
    return device.entries


def silent_boot(boots: int) -> list[bytes]:
    device = DEVICE.restored(len(LOG), boots=boots)
    device.start()
    return device.entries


NAMED: dict[str, list[bytes]] = {
    "whole": list(LOG),
    "first missing": list(LOG[1:]),
    "one missing": [*LOG[:4], *LOG[5:]],
    "three missing": [*LOG[:4], *LOG[7:]],
    "last missing": list(LOG[:-1]),
    "altered": [*LOG[:4], flipped(LOG[4], 8 * 60), *LOG[5:]],
    "altered mac": [*LOG[:4], flipped(LOG[4], 8 * 239), *LOG[5:]],
    "altered last": [*LOG[:-1], flipped(LOG[-1], 8 * 100)],
    "copy": [*LOG[:5], LOG[4], *LOG[5:]],
    "copied whole": [*LOG, *LOG],
    "moved": [*LOG[:3], *LOG[4:8], LOG[3], *LOG[8:]],
    "halves": [*LOG[6:], *LOG[:6]],
    "fork": forked(5),
    "fork, other side only": [*LOG[:5], *restored(5)],
    "fork, its other side twice": [*forked(5), *restored(5)],
    "fork, joined wrongly": [*LOG[:7], *restored(5)[2:]],
    "fork from nothing": forked(1),
    "unknown kind": unknown_kind(),
    "boots without an entry": silent_boot(9),
    "boots went back": silent_boot(1),
}


@pytest.mark.parametrize("tail", [None, DEVICE.tail], ids=["no tail", "tail"])
@pytest.mark.parametrize("name", NAMED)
def test_named_faults_are_those_of_the_log_in_memory(name: str, tail: Tail | None) -> None:
    """The same faults; an entry that moved may be another of the same stretch."""
    entries = NAMED[name]
    wanted = check_log(read_log(b"".join(entries)), key=KEYS.log, tail=tail)
    found = judged(entries, tail=tail)
    assert {one.fault for one in found.findings} == {one.fault for one in wanted.findings}
    assert found.proven == len(wanted.proven)
    assert found.has_end == (tail is not None)


@pytest.mark.parametrize("name", NAMED)
def test_named_faults_by_an_attestation(name: str) -> None:
    entries = NAMED[name]
    wanted = check_log(read_log(b"".join(entries)), tail=ATTESTED)
    found = judged(entries, key=None, tail=ATTESTED)
    assert {one.fault for one in found.findings} == {one.fault for one in wanted.findings}
    assert found.proven == len(wanted.proven)


CHANGES: tuple[Callable[[random.Random, list[bytes]], None], ...] = (
    lambda r, log: log.__delitem__(r.randrange(len(log))),
    lambda r, log: log.insert(r.randrange(len(log)), r.choice(LOG)),
    lambda r, log: log.append(log.pop(r.randrange(len(log)))),
    lambda r, log: log.extend(restored(r.randrange(1, len(LOG)))),
    lambda r, log: log.__setitem__(0, flipped(log[0], r.randrange(ENTRY_BYTES * 8))),
    lambda r, log: log.__setitem__(-1, flipped(log[-1], r.randrange(8 * 8, ENTRY_BYTES * 8))),
)


@settings(deadline=None)
@given(
    seed=st.integers(0, 1 << 32), changes=st.lists(st.sampled_from(CHANGES), max_size=4), chunk=st.integers(1, 20)
)
def test_the_verdict_and_what_is_proven_are_those_of_the_log_in_memory(
    seed: int, changes: list[Callable[[random.Random, list[bytes]], None]], chunk: int
) -> None:
    rng, entries = random.Random(seed), list(LOG)
    for change in changes:
        change(rng, entries)
    for key, tail in ((KEYS.log, None), (KEYS.log, DEVICE.tail), (None, ATTESTED)):
        # The magic is that of the file, so the host refuses a log whose two first entries have none.
        if not any(entry.startswith(b"GRLOGEN1") for entry in entries[:2]):
            return
        wanted = check_log(read_log(b"".join(entries)), key=key, tail=tail)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_runs, "CHUNK", chunk)
            found = judged(entries, key, tail)
        assert bool(found.findings) == bool(wanted.findings)
        assert found.proven == len(wanted.proven)


def test_a_long_log_without_a_fault_is_one_run() -> None:
    device = LoggingDevice()
    for _ in range(60):
        device.session(replays=48)
    found = judged(device.entries, tail=device.tail)
    assert (found.findings, found.proven) == ([], 3000)
    scan = log_runs.scan_log(
        lambda at, n: device.data[at * ENTRY_BYTES : (at + n) * ENTRY_BYTES], 3000, KEYS.log, lambda *_: None
    )
    assert scan.runs == [log_runs.Run(0, 0, 3000)]


def test_another_devices_log_is_foreign() -> None:
    found = judged(LOG, key=bytes(range(32)))
    assert [one.fault.value for one in found.findings] == ["foreign"]
    assert found.proven == 0


def test_more_irregularities_than_are_told_apart_are_an_error() -> None:
    """What is kept of a log is bounded, whoever wrote it."""
    device = LoggingDevice()
    device.session(replays=2 * log_runs.MOST + 10)
    with pytest.raises(TooManyError, match=f"more than {log_runs.MOST} places"):
        judged(device.entries[::2], tail=None)
    noise = [np.random.default_rng(n).bytes(ENTRY_BYTES) for n in range(log_runs.MOST + 5)]
    found = judged([*device.entries[:3], *noise], tail=None)
    assert [one.text for one in found.findings][-1] == "5 more entries are not what the device wrote"


def test_nothing_is_proven_by_nothing() -> None:
    with pytest.raises(ValueError, match="a log key or a tail"):
        judged(LOG, key=None, tail=None)
