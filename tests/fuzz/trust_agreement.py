# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies, host against device: made-up envelopes and policies must get the same status from both.

    python -m tests.fuzz.trust_agreement --count 1000000

Each begins as a named case of tests/support/hostile_trust.py, or is put together of like parts: keys under other
ids, two keys of one person, rights that come and go, revocations that are taken back. Fields of policies, the
device's own as well, bytes of messages, who signs, and what the device knows are changed, and most of what was
changed is signed again by those who may. The exit status is 1 where host and core differ, and the file is kept.
Interrupted (Ctrl-C), it prints what came of those that were made; each block of files has a seed of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from signing.cose_sign import Entries, Entry, Signatures, to_be_signed
from signing.delivery import Delivery
from signing.envelope import before_under_policy
from signing.errors import TrustError
from signing.keys import Algorithm, HybridPrivateKey, public_of, sign
from signing.sign import head_of
from signing.trust import Policy, Role, Rule
from signing.trust_keys import Key
from signing.trust_verdict import Judge, judge
from signing.verify import Verdict, verify_under_policy
from tee_replayer.generator.hostlib import HostReplayer
from tee_replayer.generator.status import ReplayError, statuses
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.hostile_ids import PEOPLE, Renamed, flipped
from tests.support.hostile_trust import CASES
from tests.support.places import CHECKOUT
from tests.support.trust_samples import (
    DEVICE_ID,
    EDWARDS,
    HYBRIDS,
    PLATFORM,
    ROOTS,
    SIGNERS,
    TRACERS,
    WIDE,
    kids,
    policy,
)
from trace_format import packing
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

TASK = 5_000  # files of one seed
KEPT = CHECKOUT / "build" / "fuzz" / "trust-agreement"
STATUSES = statuses()
# Statuses for which the host says that a file is malformed.
FORMS = {Status.FORMAT, Status.ENVELOPE, Status.SIZE, Status.READ, Status.HEADER, Status.SECTIONS}
# Kinds of keys that devices have code for, of the named cases; None: all.
ALGORITHMS = {case.where.algorithms for case in CASES.values()} | {None}
# What only the device looks at, or the host after the verdict: cases whose trace is bad are not made here.
NAMES = ("net", "ne", "n", "", "network", "other")
TRACES = {
    (name, version): t.small(name=name, security_version=version) for name in NAMES[:3] for version in (0, 3)
}
# Signers by the ids of their keys: reading a key's id from the key takes longer than all else here.
KEYS = {one.kid: (one, Key.of(one.public)) for one in (*SIGNERS, *HYBRIDS, *WIDE, *EDWARDS)}
ALL, FEW = sorted(KEYS), sorted(kids(SIGNERS))
FIRST, ROOT_KIDS, TRACER_KIDS = policy(), sorted(kids(ROOTS)), sorted(kids(TRACERS))
TWINS = [key for _, *pair in PEOPLE.values() for key in pair]  # two of a person, and some that are none
GONE = [*ALL, *(half for key in TWINS for half in key.halves), b"x" * 16]
NOBODY = t.es256(b"\1" * 64)
_HEAD, _KEY, _RULE = (packing.Row(f"trust_{name}") for name in ("policy", "key", "rule"))


def packed(found: Policy) -> bytes:
    """As `Policy.packed`, but in a tenth of the time; what a policy cannot say is said in another way."""
    keys, devices, revoked = found.keys[:16], found.devices, sorted(found.revoked)[:32]
    order = [key.kid for key in keys]

    def mask(of: Iterable[bytes], every: list[bytes]) -> int:
        return sum(1 << every.index(one) for one in of if one in every)

    counts = len(keys), len(found.rules), len(devices), len(revoked)
    size = 96 + 128 * (counts[0] + counts[1]) + 16 * (counts[2] + counts[3])
    head = _HEAD.pack(
        version_major=1,
        version_minor=0,
        bytes=size,
        version=found.version,
        **dict(zip(("key_count", "rule_count", "device_count", "revoked_count"), counts, strict=True)),
        not_before=found.not_before,
        not_after=found.not_after,
        root_keys=mask(found.root.kids, order),
        root_threshold=found.root.threshold,
        name=found.name.encode(),
    )
    rules = [
        _RULE.pack(
            name=one.name.encode(),
            keys=mask(one.role.kids, order),
            threshold=one.role.threshold,
            flags=one.prefix | one.signed_weights << 1,
            gpu=one.gpu,
            min_security_version=one.min_security_version,
            devices=mask(one.devices, devices),
            carveout_bytes=one.carveout_bytes,
            time_budget_us=one.time_budget_us,
            platform=one.platform.encode(),
        )
        for one in found.rules
    ]
    rows = [_KEY.pack(kid=key.kid, kind=key.kind, key=key.raw) for key in keys]
    return b"".join([head, *rows, *rules, *devices, *revoked])


def some(r: random.Random, of: list[bytes]) -> list[bytes]:
    return r.sample(of, r.randint(1, min(4, len(of))))


def role(r: random.Random, of: list[bytes]) -> Role:
    chosen = some(r, of)
    return Role(frozenset(chosen), r.randint(1, len(chosen)))


def made_rule(r: random.Random, of: list[bytes]) -> Rule:
    return Rule(
        r.choice(NAMES) or "x",
        role(r, of),
        r.random() < 0.5,
        gpu=r.choice((0, 0, 0, 1, 2, 9)),
        platform=r.choice(("", "", PLATFORM, "qemu", "optee")),
        devices=frozenset(r.sample([DEVICE_ID, bytes(16), b"d" * 16], r.choice((0, 0, 1, 2)))),
        min_security_version=r.choice((0, 0, 3, 4)),
        carveout_bytes=r.choice((0, 0, 8 * 4096, 8 * 4096 - 1)),
        time_budget_us=r.choice((0, 0, 1, 10**9)),
    )


def renamed(r: random.Random, keys: list[Key]) -> list[Key]:
    """One of them says another id, or one person gets two."""
    key, kind = r.choice(keys), r.random()
    if kind < 0.4:
        return [*keys, *r.sample(TWINS, 2 if kind < 0.2 else 1)]
    said = r.choice((r.choice(ALL), flipped(key.kid, r.randrange(16)), bytes(16), r.randbytes(16)))
    return [*(one for one in keys if one is not key), Renamed(key.raw, key.kind, said)]


def made_policy(r: random.Random, version: int, found: Policy, of: list[bytes]) -> Policy:
    """The one before with changes."""
    rules, root = found.rules, found.root
    if r.random() < 0.5:
        rules = tuple(made_rule(r, of) for _ in range(r.randint(0, 3)))
    if r.random() < 0.2:
        root = role(r, of)
    if r.random() < 0.2:
        found = replace(found, not_before=r.choice((0, 5, 9)), not_after=r.choice((0, 9, 12)))
    named = root.kids.union(*(one.role.kids for one in rules))
    revoked = found.revoked if r.random() < 0.8 else frozenset(one for one in found.revoked if r.random() < 0.7)
    if r.random() < 0.3:
        revoked |= {r.choice(GONE) for _ in range(r.randint(1, 3))}
    if r.random() < 0.95:  # those that are revoked have no rights
        revoked -= named
    keys = [KEYS[kid][1] for kid in of if kid in named or (r.random() < 0.3 and kid not in revoked)]
    if r.random() < 0.1:
        keys = renamed(r, keys)
    if r.random() < 0.03:
        keys = keys[: r.randint(0, len(keys))]
    return replace(found, version=version, keys=tuple(keys), root=root, rules=rules, revoked=revoked)


def spoiled(r: random.Random, data: bytes, most: int = 3) -> bytes:
    """With bytes changed, taken away or put in."""
    changed = bytearray(data)
    for _ in range(r.randint(1, most)):
        at = r.randrange(len(changed) + 1)
        kind = r.random()
        if kind < 0.7 and at < len(changed):
            changed[at] = r.choice((changed[at] ^ 1 << r.randrange(8), r.randrange(256), 0, 255))
        elif kind < 0.85:
            del changed[at : at + r.randint(1, 4)]
        else:
            changed[at:at] = r.randbytes(r.randint(1, 4))
    return bytes(changed)


def signed(kid: bytes, payload: bytes) -> Entries:
    """A key's signature; that it is one is not looked at."""
    signer = KEYS[kid][0]
    halves = signer.key.halves if isinstance(signer.key, HybridPrivateKey) else (signer.key,)
    found = []
    for half in halves:
        public = public_of(half)
        brings = public.raw if public.algorithm is Algorithm.ML_DSA_44 else b""
        signature = sign(half, to_be_signed(kid, payload, public.algorithm))
        found.append(Entry(public.algorithm, signature, brings))
    return tuple(found)


@functools.cache
def of_trace(kid: bytes, trace: tuple[str, int] | None) -> Entries:
    """A key's signature of one of the traces; None: of something else."""
    return signed(kid, head_of(TRACES[trace]) if trace else b"something else")


def enough(r: random.Random, roles: Iterable[Role]) -> list[bytes]:
    """Ids of as many keys of each role as it takes; or of any."""
    if r.random() < 0.2:
        return some(r, ALL)
    found = (kid for one in roles for kid in sorted(one.kids & KEYS.keys())[-one.threshold :])
    return [*dict.fromkeys(found)]


@dataclass(frozen=True)
class Made:
    """A file, a device's policy, and what the device knows.

    Attributes:
        data: the file.
        own: the policy's bytes.
        where: what else the device knows.
        messages, trace: what the file was put together of, if nothing was changed since: the host then need not
            take it apart, which takes longer than its verdict.
    """

    data: bytes
    own: bytes
    where: Judge
    messages: tuple[Signatures, ...] = ()
    trace: tuple[str, int] = ("", 0)


def made(r: random.Random) -> Made:
    """Put together of random parts."""
    of = ALL if r.random() < 0.07 else FEW
    root = made_policy(r, r.choice((1, 1, 2)), FIRST, of) if r.random() < 0.6 else FIRST
    own = packed(root)
    if r.random() < 0.15:
        own = flipped(own, r.randrange(len(own)), r.randrange(8))
    links: list[Signatures] = []
    before = root
    for _ in range(r.choice((0, 0, 1, 1, 1, 2, 3))):
        newer = made_policy(r, before.version + r.choice((1, 1, 1, 1, 0, 2)), before, of)
        payload = packed(newer)
        if r.random() < 0.3:
            payload = spoiled(r, payload) if r.random() < 0.8 else payload[: r.randint(24, len(payload))]
        if r.random() < 0.2:
            links.append(Signatures(dict.fromkeys(some(r, FEW), (NOBODY,)), payload))
        else:
            links.append(
                Signatures({kid: signed(kid, payload) for kid in enough(r, (before.root, newer.root))}, payload)
            )
        before = newer
    name = r.choice(NAMES[:3]), r.choice((0, 3))
    fitting = before.rule(name[0].encode())
    signers = enough(r, [fitting.role] if fitting else [])
    by_kid = {kid: of_trace(kid, None if r.random() < 0.03 else name) for kid in signers}
    trace = TRACES[name]
    messages = (Signatures(by_kid), *links)
    data = before_under_policy(messages, len(trace)) + trace
    least, now = r.choice((0, 0, 0, 1, 2)), r.choice((0, 0, 0, 7, 11))
    where = Judge(PLATFORM, r.choice((DEVICE_ID, bytes(16))), least, now)
    if r.random() >= 0.15:
        return Made(data, own, where, messages, name)
    head = len(data) - len(trace)
    data = spoiled(r, data[:head], 2) + trace if r.random() < 0.9 else data[: r.randrange(len(data))]
    return Made(data, own, where)


def case_of(r: random.Random) -> Made:
    """A named case, with a few bytes in front of the trace changed."""
    name = r.choice(list(CASES))
    case, data = CASES[name], _file(name)
    envelope = min(len(data), 32 + int.from_bytes(data[12:16], "little"))
    own = case.malformed or _own(name)
    if r.random() < 0.2:
        own = flipped(own, r.randrange(len(own)), r.randrange(8))
    return Made(spoiled(r, data[:envelope], 2) + data[envelope:], own, case.where)


@functools.cache
def _own(name: str) -> bytes:
    return CASES[name].root.raw


@functools.cache
def _file(name: str) -> bytes:
    return CASES[name].make()


def _device(algorithms: frozenset[KeyKind] | None) -> HostReplayer:
    """A replayer that has code for these kinds of keys; None: for all."""
    library = s.library(trust=True, algorithms=tuple(KeyKind if algorithms is None else algorithms))
    gpu = s.Registers()
    return HostReplayer(library, gpu.gpu, gpu.c_interface, bytearray(s.CARVEOUT_BYTES), s.CARVEOUT_PHYS)


@functools.cache
def parts(trace: tuple[str, int]) -> tuple[bytes, dict[str, Any]]:
    """Head and manifest of one of the traces."""
    delivery = Delivery(before_under_policy([Signatures({})], len(TRACES[trace])) + TRACES[trace])
    return head_of(TRACES[trace]), delivery.manifest


def by_host(one: Made) -> Status | None:
    """The host's verdict; None: the file is malformed."""
    try:
        root = Policy.decode(one.own)
    except TrustError:
        return Status.TRUST
    if one.messages:
        return judge(root, one.messages, *parts(one.trace), where=one.where).status
    found = verify_under_policy(Delivery(one.data), root, one.where)
    if found.verdict is Verdict.MALFORMED or found.trust is None:
        return None
    return found.trust.status


def by_core(replayer: HostReplayer, one: Made) -> Status:
    """The core's verdict."""
    try:
        replayer.load_trusted(one.data, one.own, one.where)
    except ReplayError as error:
        return STATUSES[error.report.status]
    replayer.unload()
    return Status.OK


def agree(host: Status | None, core: Status) -> bool:
    """A file that is no signed trace is none for the host, whatever the device's policy."""
    return host is core or (core in FORMS and host in (None, Status.TRUST))


def compare(seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Make and judge files; how often which status came out, and the names of those that are kept."""
    r = random.Random(seed)
    devices = {algorithms: _device(algorithms) for algorithms in ALGORITHMS}
    seen: Counter[str] = Counter()
    kept = []
    for number in range(count):
        one = case_of(r) if r.random() < 0.15 else made(r)
        core, host = by_core(devices[one.where.algorithms], one), by_host(one)
        seen[core.name] += 1
        if not agree(host, core):
            KEPT.mkdir(parents=True, exist_ok=True)
            path = KEPT / f"{seed}-{number}.sgtr"
            path.write_bytes(one.data)
            path.with_suffix(".policy").write_bytes(one.own)
            kept.append(f"{path}: host {host.name if host else 'malformed'}, core {core.name}")
    return seen, kept


def _task(of: tuple[int, int]) -> tuple[Counter[str], list[str]]:
    return compare(*of)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="files (default: 20,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="processes")
    chosen = parser.parse_args(arguments)
    for algorithms in ALGORITHMS:  # once for all processes, as the cases
        _device(algorithms)
    for name in CASES:
        _file(name), _own(name)
    seen: Counter[str] = Counter()
    kept: list[str] = []
    tasks = [(chosen.seed + at // TASK, min(TASK, chosen.count - at)) for at in range(0, chosen.count, TASK)]
    with multiprocessing.Pool(chosen.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
        for one, lines in pool.imap_unordered(_task, tasks):
            seen += one
            kept += lines
            print(f"{seen.total():>10,}  so far, {len(kept)} disagreements", file=sys.stderr)
    for name, number in seen.most_common():
        print(f"{number:>10,}  {name}")
    print(f"{sum(seen.values()):>10,}  in all, {len(kept)} disagreements")
    print("\n".join(kept))
    return int(bool(kept))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
