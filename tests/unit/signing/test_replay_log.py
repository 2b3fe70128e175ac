# SPDX-License-Identifier: BSD-2-Clause
"""The replay log on the host: every way in which a log can be other than the device wrote it is named."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import itertools
import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signing import device_keys
from signing.curves import P256_ORDER
from signing.errors import KeyFileError
from signing.log_checks import Checked, Fault, check_log
from signing.replay_log import ENTRY_BYTES, Tail, read_log, read_tail
from tests.support.log_samples import KEYS, SECRET, TRACES, LoggingDevice, sample
from trace_format import packing
from trace_format.errors import MagicError, TraceError, TruncatedError
from trace_format.schema.log import LogKind

DEVICE = sample()
LOG = tuple(DEVICE.entries)
ATTESTED = dataclasses.replace(DEVICE.tail, is_final=False)


def check(entries: Iterable[bytes], key: bytes | None = KEYS.log, tail: Tail | None = DEVICE.tail) -> Checked:
    return check_log(read_log(b"".join(entries)), key=key, tail=tail)


def faults(found: Checked) -> list[tuple[str, int | None]]:
    return [(finding.fault.value, finding.position) for finding in found.findings]


def flipped(entry: bytes, bit: int) -> bytes:
    return entry[: bit // 8] + bytes([entry[bit // 8] ^ 1 << bit % 8]) + entry[bit // 8 + 1 :]


def with_changed(position: int, bit: int) -> list[bytes]:
    return [flipped(entry, bit) if at == position else entry for at, entry in enumerate(LOG)]


def swapped(a: int, b: int) -> list[bytes]:
    entries = list(LOG)
    entries[a], entries[b] = entries[b], entries[a]
    return entries


def forked(keep: int) -> list[bytes]:
    """The device's state is put back, it goes on from there, and somebody has both continuations."""
    other = DEVICE.restored(keep)
    other.session(TRACES[2])
    return [*LOG, *other.entries[keep:]]


def set_back() -> tuple[list[bytes], Tail]:
    """The tail is put back to where boot 2 had not begun, and the boot counter, kept elsewhere, is not."""
    other = DEVICE.restored(4, boots=4)
    other.session()
    return other.entries, other.tail


def counter_set_back() -> list[bytes]:
    other = DEVICE.restored(len(LOG), boots=1)
    other.session()
    return other.entries


def rewritten() -> list[bytes]:
    """An entry is altered by somebody with the log key."""
    device = LoggingDevice(entries=list(LOG[:5]))
    device.append(LOG[5][:56] + bytes(4) + LOG[5][60:96] + bytes(range(32)) + LOG[5][128:])
    return [*device.entries, *LOG[6:]]


OTHER = LoggingDevice(device_keys.derive(hashlib.sha256(b"another device").digest()))
OTHER.session()

# name -> entries, tail, what must be found: (fault, position in the file)
ATTACKS: dict[str, tuple[list[bytes], Tail, list[tuple[str, int | None]]]] = {
    "removed": ([*LOG[:5], *LOG[6:]], DEVICE.tail, [("gap", 5)]),
    "first removed": (list(LOG[1:]), DEVICE.tail, [("gap", 0)]),
    "three removed": ([*LOG[:3], *LOG[6:]], DEVICE.tail, [("gap", 3)]),
    "removed in two places": ([*LOG[:2], *LOG[3:6], *LOG[7:]], DEVICE.tail, [("gap", 2), ("gap", 5)]),
    "altered": (with_changed(4, 8 * 100), DEVICE.tail, [("altered", 4)]),
    "MAC altered": (with_changed(4, 8 * 239), DEVICE.tail, [("altered", 4)]),
    "number altered": (with_changed(4, 8 * 8), DEVICE.tail, [("altered", 4), ("gap", 5)]),
    "last altered": (with_changed(11, 8 * 30), DEVICE.tail, [("altered", 11)]),
    "magic altered": (with_changed(0, 0), DEVICE.tail, [("altered", 0)]),
    "two altered": (
        [flipped(entry, 1000) if at in (2, 7) else entry for at, entry in enumerate(LOG)],
        DEVICE.tail,
        [("altered", 2), ("altered", 7)],
    ),
    "written with the stolen log key": (rewritten(), DEVICE.tail, [("fork", 6)]),
    "neighbours swapped": (swapped(4, 5), DEVICE.tail, [("reordered", 4)]),
    "swapped": (swapped(1, 9), DEVICE.tail, [("reordered", 1), ("reordered", 9)]),
    "one moved to the front": ([LOG[8], *LOG[:8], *LOG[9:]], DEVICE.tail, [("reordered", 0)]),
    "one moved to the end": ([*LOG[:3], *LOG[4:], LOG[3]], DEVICE.tail, [("reordered", 11)]),
    "duplicated": ([*LOG[:7], LOG[6], *LOG[7:]], DEVICE.tail, [("duplicate", 7)]),
    "duplicated elsewhere": ([*LOG, LOG[2]], DEVICE.tail, [("duplicate", 12)]),
    "removed, another twice": ([*LOG[:5], LOG[4], *LOG[6:]], DEVICE.tail, [("duplicate", 5), ("gap", 6)]),
    "tail cut": (list(LOG[:-1]), DEVICE.tail, [("cut-tail", None)]),
    "all but the first cut": (list(LOG[:1]), DEVICE.tail, [("cut-tail", None)]),
    "tail cut, its device's set back": (list(LOG), DEVICE.restored(7).tail, [("roll-back", None)]),
    "forked": (forked(7), Tail(0, 0, bytes(32), False), [("fork", 12)]),
    "forked, and alike at first": (
        forked(6),
        Tail(0, 0, bytes(32), False),
        [("duplicate", 12), ("fork", 13)],
    ),
    "forked at the end": (
        [*LOG[:-1], DEVICE.restored(11).write(LogKind.REPLAY, TRACES[1])],
        DEVICE.tail,
        [("fork", 11)],
    ),
    "tail set back, and used": (*set_back(), [("roll-back", 4)]),
    "counter set back": (counter_set_back(), Tail(0, 0, bytes(32), False), [("roll-back", 12)]),
    "boots without entries": (list(LOG), dataclasses.replace(DEVICE.tail, boots=6), [("roll-back", None)]),
    "of another device": (list(OTHER.entries), DEVICE.tail, [("foreign", None)]),
    "mixed with another device's": ([*LOG[:6], OTHER.entries[0], *LOG[6:]], DEVICE.tail, [("altered", 6)]),
}


def test_what_the_device_wrote_is_good() -> None:
    for entries, tail in (
        (LOG, DEVICE.tail),
        (LOG, ATTESTED),
        (LOG, DEVICE.restored(6).tail.__class__(6, 2, hashlib.sha256(LOG[5]).digest(), False)),
        (LOG[:1], None),
        (LOG, None),
    ):
        found = check(entries, tail=tail)
        assert found.findings == ()
        assert [entry.raw for entry in found.proven] == list(entries)
    assert check(LOG, key=None, tail=ATTESTED).findings == ()


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_named(name: str) -> None:
    entries, tail, expected = ATTACKS[name]
    assert faults(check(entries, tail=tail)) == expected


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_noticed_without_the_log_key(name: str) -> None:
    """By an attested tail alone: which entry is at fault may not be known, that one is must be."""
    entries, _, _ = ATTACKS[name]
    if entries != list(LOG):  # the tail itself is what is attacked
        found = check(entries, key=None, tail=ATTESTED)
        assert found.findings
        assert all(entry.raw in LOG for entry in found.proven)


WITHOUT_KEY = {
    "altered": [("unproven", 0), ("unproven", 1), ("unproven", 2), ("unproven", 3), ("altered", 4)],
    "last altered": [*(("unproven", at) for at in range(11)), ("altered", 11)],
    "first removed": [("gap", 0)],
    "neighbours swapped": [("reordered", 4)],
    "duplicated": [("duplicate", 7)],
    "tail cut": [*(("unproven", at) for at in range(11)), ("cut-tail", None)],
    "forked at the end": [*(("unproven", at) for at in range(11)), ("altered", 11)],
}


@pytest.mark.parametrize("name", WITHOUT_KEY)
def test_what_an_attested_tail_says(name: str) -> None:
    assert faults(check(ATTACKS[name][0], key=None, tail=ATTESTED)) == WITHOUT_KEY[name]


def test_entries_after_an_attested_tail_are_not_proven_by_it() -> None:
    middle = Tail(6, 2, hashlib.sha256(LOG[5]).digest(), False)
    assert faults(check(LOG, key=None, tail=middle)) == [("unproven", at) for at in range(6, 12)]


def test_a_roll_back_of_everything_needs_the_tail() -> None:
    """An old log with the old tail is consistent: only what the platform cannot set back tells."""
    old = DEVICE.restored(7)
    assert check(old.entries, tail=None).findings == ()
    assert faults(check(old.entries)) == [("cut-tail", None)]


def test_traces_are_matched() -> None:
    entries = read_log(DEVICE.data)
    assert check_log(entries, key=KEYS.log, traces=TRACES).findings == ()
    found = check_log(entries, key=KEYS.log, traces=TRACES[:1]).findings
    assert [(f.fault, f.position) for f in found] == [(Fault.UNKNOWN_TRACE, 7)]
    assert TRACES[1].hex() in found[0].text


@pytest.mark.parametrize("kind", [0, 5, 0xFFFFFFFF])
def test_an_entry_of_an_unknown_kind(kind: int) -> None:
    """With a good MAC: somebody has the key. It ended the command once."""
    device = sample()
    fields = packing.unpack("log_entry", device.write(LogKind.LOAD, TRACES[0]))
    device.entries.pop()
    device.append(packing.pack("log_entry", {**fields, "kind": kind}))
    found = check(device.entries, tail=device.tail)
    assert faults(found) == [("unknown-kind", 12)]
    assert found.findings[0].text == f"entry 12: expected a kind from 1 to 4, found {kind}"
    assert found.proven[12].kind is None
    assert ("unknown-kind", 12) in faults(check(device.entries, key=None, tail=device.tail))


def test_neither_key_nor_tail() -> None:
    with pytest.raises(ValueError, match="a log key or a tail"):
        check_log(read_log(DEVICE.data))


def test_every_flipped_bit_is_noticed() -> None:
    rng = random.Random(5)
    for bit in rng.sample(range(8 * ENTRY_BYTES), 200):
        position = rng.randrange(len(LOG))
        found = check(with_changed(position, bit))
        assert ("altered", position) in faults(found), (position, bit)
        assert check(with_changed(position, bit), key=None, tail=ATTESTED).findings


@given(st.data())
def test_no_other_order_passes(data: st.DataObject) -> None:
    """Any sequence of the device's own entries that is not the log is noticed."""
    picked = data.draw(st.lists(st.sampled_from(LOG), min_size=1, max_size=len(LOG) + 2))
    found = check(picked)
    assert bool(found.findings) == (picked != list(LOG))
    assert [entry.sequence for entry in found.proven] == sorted({LOG.index(entry) for entry in picked})


def test_permutations_are_noticed() -> None:
    for order in itertools.permutations(range(5)):
        entries = [LOG[index] for index in order]
        found = faults(check(entries, tail=DEVICE.restored(5).tail))
        assert (found == []) == (list(order) == sorted(order))
        assert {fault for fault, _ in found} <= {"reordered"}


MALFORMED: dict[str, tuple[bytes, type[TraceError]]] = {
    "empty": (b"", MagicError),
    "text": (b"hello", MagicError),
    "cut": (DEVICE.data[:-1], TruncatedError),
    "cut in the first": (DEVICE.data[:100], TruncatedError),
    "too long": (DEVICE.data + b"\0", TruncatedError),
    "shifted": (DEVICE.data[1:], MagicError),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_log(name: str) -> None:
    data, error = MALFORMED[name]
    with pytest.raises(error) as caught:
        read_log(data, file="a.log")
    assert str(caught.value).startswith("a.log at offset 0x")


def test_a_tail() -> None:
    values = {"entries": 12, "boots": 4, "hash": bytes(range(32))}
    packed = packing.pack("log_tail", values)
    assert read_tail(packed) == Tail(12, 4, bytes(range(32)))
    for wrong in (b"", packed[:-1], packed + b"\0"):
        with pytest.raises(TruncatedError):
            read_tail(wrong)


def hkdf_expand(secret: bytes, info: bytes) -> bytes:
    """RFC 5869, 2.3, for 32 bytes."""
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()


def test_keys_follow_from_the_secret() -> None:
    assert KEYS.log == hkdf_expand(SECRET, b"gramophone log")
    number = int.from_bytes(hkdf_expand(SECRET, b"gramophone attestation\0"), "big")
    assert KEYS.attestation.key.private_numbers().private_value == number  # type: ignore[union-attr]


def test_a_candidate_that_is_no_key_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def expand(secret: bytes, info: bytes) -> bytes:
        asked.append(info)
        return (P256_ORDER if len(asked) == 1 else 7).to_bytes(32, "big")

    monkeypatch.setattr(device_keys, "_expand", expand)
    keys = device_keys.derive(SECRET)
    assert keys.attestation.key.private_numbers().private_value == 7  # type: ignore[union-attr]
    assert asked[:2] == [b"gramophone attestation\0", b"gramophone attestation\1"]
    monkeypatch.setattr(device_keys, "_expand", lambda *_: bytes(32))
    with pytest.raises(KeyFileError, match="4 candidates"):
        device_keys.derive(SECRET)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), bytes(32), b"\xff" * 32])
def test_what_is_no_secret(secret: bytes) -> None:
    with pytest.raises(KeyFileError, match=r"^secret: a device's secret: expected"):
        device_keys.derive(secret, file="secret")


def test_new_secrets_differ() -> None:
    new: Callable[[], bytes] = device_keys.new_secret
    assert len({new() for _ in range(10)}) == 10
    assert len(new()) == device_keys.SECRET_BYTES


def test_trust_policies_of_loads() -> None:
    """Entries of a device with one key name none, as those of earlier firmware."""
    device = LoggingDevice()
    device.start()
    policies = [hashlib.sha256(b"policy %d" % number).digest() for number in range(2)]
    for number, policy in enumerate(policies):
        version = (number + 5).to_bytes(4, "little") + bytes(28)
        device.write(LogKind.LOAD, TRACES[0], inputs=policy, outputs=version)
        device.write(LogKind.REPLAY, TRACES[0], inputs=policies[1], outputs=bytes(32))
    entries = read_log(b"".join(device.entries))
    assert [entry.trust_version for entry in entries] == [0, 5, 0, 6, 0]
    assert [entry.trust_policy for entry in entries] == [b"", policies[0], b"", policies[1], b""]
    assert check_log(entries, key=KEYS.log, policies=policies).findings == ()
    (found,) = check_log(entries, key=KEYS.log, policies=policies[1:]).findings
    assert (found.fault, found.position) == (Fault.OTHER_POLICY, 1)
    assert f"{policies[0][:16].hex()}, version 5" in found.text
    earlier = read_log(b"".join(LOG))
    assert check_log(earlier, key=KEYS.log, tail=DEVICE.tail).findings == ()
    (found,) = check_log(earlier, key=KEYS.log, tail=DEVICE.tail, policies=policies).findings
    assert found.fault is Fault.OTHER_POLICY
    assert "no trust policy" in found.text
