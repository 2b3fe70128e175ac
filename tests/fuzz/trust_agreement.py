# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies, host against device: made-up envelopes and policies must get the same status from both.

    python -m tests.fuzz.trust_agreement --count 1000000

Each begins as a named case of tests/support/hostile_trust.py, or is put together of like parts; fields of
policies, bytes of messages, who signs, and what the device knows are changed, and most of what was changed is
signed again by those who may. The exit status is 1 where host and core differ, and the file is kept. Interrupted
(Ctrl-C), it prints what came of those that were made; each block of files has a seed of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import random
import sys
from collections import Counter
from dataclasses import replace

from signing.cose_sign import Signatures
from signing.delivery import Delivery
from signing.envelope import before_under_policy
from signing.sign import FileSigner, entries
from signing.trust import Policy, Role, Rule
from signing.trust_verdict import Judge
from signing.verify import Verdict, verify_under_policy
from tee_replayer.generator.hostlib import HostReplayer
from tee_replayer.generator.status import ReplayError, statuses
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
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
    rule,
)
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

TASK = 5_000  # files of one seed
KEPT = CHECKOUT / "build" / "fuzz" / "trust-agreement"
# Statuses for which the host says that a file is malformed.
FORMS = {Status.FORMAT, Status.ENVELOPE, Status.SIZE, Status.READ, Status.HEADER, Status.SECTIONS}
# Kinds of keys that devices have code for, of the named cases; None: all.
ALGORITHMS = {case.where.algorithms for case in CASES.values()} | {None}
ALL = [*SIGNERS, *HYBRIDS, *WIDE, *EDWARDS]
# What only the device looks at, or the host after the verdict: cases whose trace is bad are not made here.
NAMES = ("net", "ne", "n", "", "network", "other")
TRACES = {
    (name, version): t.small(name=name, security_version=version) for name in NAMES[:3] for version in (0, 3)
}


def some(random_: random.Random, of: list[FileSigner]) -> list[FileSigner]:
    return random_.sample(of, random_.randint(0, min(4, len(of))))


def made_rule(r: random.Random, of: list[FileSigner]) -> Rule:
    signers = some(r, of) or TRACERS
    return rule(
        r.choice(NAMES) or "x",
        r.randint(1, len(signers)),
        signers,
        prefix=r.random() < 0.5,
        gpu=r.choice((0, 0, 0, 1, 2, 9)),
        platform=r.choice(("", "", PLATFORM, "qemu", "optee")),
        devices=frozenset(r.sample([DEVICE_ID, bytes(16), b"d" * 16], r.choice((0, 0, 1, 2)))),
        min_security_version=r.choice((0, 0, 3, 4)),
        carveout_bytes=r.choice((0, 0, 8 * 4096, 8 * 4096 - 1)),
        time_budget_us=r.choice((0, 0, 1, 10**9)),
    )


def made_policy(r: random.Random, version: int, before: Policy | None, of: list[FileSigner]) -> Policy:
    """The one before with changes, or another one."""
    found = before or policy()
    if r.random() < 0.5:
        found = replace(found, rules=tuple(made_rule(r, of) for _ in range(r.randint(0, 3))))
    if r.random() < 0.2:
        roots = some(r, of) or ROOTS
        found = replace(found, root=Role(kids(roots), r.randint(1, len(roots))))
    if r.random() < 0.2:
        found = replace(found, not_before=r.choice((0, 5, 9)), not_after=r.choice((0, 9, 12)))
    named = {kid for role in (found.root, *(one.role for one in found.rules)) for kid in role.kids}
    keys = tuple(key for key in t.keys(of) if key.kid in named or r.random() < 0.5)
    revoked = frozenset(
        kid for kid in sorted(kids(of)) if kid not in {key.kid for key in keys} and r.random() < 0.5
    )
    return replace(found, version=version, keys=keys, revoked=revoked)


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
            changed[at:at] = bytes(r.randrange(256) for _ in range(r.randint(1, 4)))
    return bytes(changed)


def made(r: random.Random) -> tuple[bytes, Policy, Judge]:
    """A file, a device's policy, and what the device knows."""
    of = ALL if r.random() < 0.15 else SIGNERS
    try:
        root = made_policy(r, r.choice((1, 1, 2)), None, of) if r.random() < 0.6 else policy()
        root.encode()
    except Exception:
        root = policy()
    links: list[Signatures] = []
    before = root
    for _ in range(r.choice((0, 0, 0, 1, 1, 2, 3))):
        newer = made_policy(r, before.version + r.choice((1, 1, 1, 1, 0, 2)), before, of)
        try:
            payload = newer.encode()
        except Exception:
            continue
        if r.random() < 0.3:
            payload = spoiled(r, payload) if r.random() < 0.8 else payload[: r.randint(24, len(payload))]
        if len(payload) < 24:
            continue
        wanted = before.root.kids | newer.root.kids
        signers = [one for one in of if (one.kid in wanted) == (r.random() < 0.9)]
        by_kid = {one.kid: entries(one, payload, "a policy") for one in signers}
        links.append(Signatures(by_kid, payload))
        before = newer
    trace = TRACES[r.choice(NAMES[:3]), r.choice((0, 3))]
    signers = some(r, of) if r.random() < 0.5 else TRACERS[: r.randint(1, 3)]
    message = t.signatures(trace, signers)
    for kid in list(message.by_kid):
        if r.random() < 0.05:
            message = message.with_signature(kid, *entries(SIGNERS[0], b"something else", "it"))
    data = before_under_policy([message, *links], len(trace)) + trace
    if r.random() < 0.25:
        head = len(data) - len(trace)
        data = spoiled(r, data[:head], 2) + trace if r.random() < 0.9 else data[: r.randrange(len(data))]
    return (
        data,
        root,
        Judge(PLATFORM, r.choice((DEVICE_ID, bytes(16))), r.choice((0, 0, 1, 2, 3)), r.choice((0, 0, 7, 11))),
    )


def case_of(r: random.Random) -> tuple[bytes, Policy, Judge]:
    """A named case, with a few bytes in front of the trace changed."""
    name = r.choice(list(CASES))
    case, data = CASES[name], _file(name)
    envelope = min(len(data), 32 + int.from_bytes(data[12:16], "little"))
    return spoiled(r, data[:envelope], 2) + data[envelope:], case.root, case.where


@functools.cache
def _file(name: str) -> bytes:
    return CASES[name].make()


def _device(algorithms: frozenset[KeyKind] | None) -> HostReplayer:
    """A replayer that has code for these kinds of keys; None: for all."""
    library = s.library(trust=True, algorithms=tuple(KeyKind if algorithms is None else algorithms))
    gpu = s.Registers()
    return HostReplayer(library, gpu.gpu, gpu.c_interface, bytearray(s.CARVEOUT_BYTES), s.CARVEOUT_PHYS)


def compare(seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Make and judge files; how often which status came out, and the names of those that are kept."""
    r = random.Random(seed)
    devices = {algorithms: _device(algorithms) for algorithms in ALGORITHMS}
    seen: Counter[str] = Counter()
    kept = []
    for number in range(count):
        data, root, where = case_of(r) if r.random() < 0.2 else made(r)
        replayer = devices[where.algorithms]
        try:
            replayer.load_trusted(data, root.raw, where)
            core = Status.OK
            replayer.unload()
        except ReplayError as error:
            core = statuses()[error.report.status]
        found = verify_under_policy(Delivery(data), root, where)
        host = (
            None if found.verdict is Verdict.MALFORMED else found.trust.status if found.trust is not None else None
        )
        seen[core.name] += 1
        if host != core and not (host is None and core in FORMS):
            KEPT.mkdir(parents=True, exist_ok=True)
            path = KEPT / f"{seed}-{number}.sgtr"
            path.write_bytes(data)
            path.with_suffix(".gtp").write_bytes(root.raw)
            kept.append(f"{path}: host {host.name if host else 'malformed'}, core {core.name}")
    return seen, kept


def _task(of: tuple[int, int]) -> tuple[Counter[str], list[str]]:
    return compare(*of)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="files (default: 20,000)")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    for algorithms in ALGORITHMS:
        _device(algorithms)
    seen: Counter[str] = Counter()
    kept: list[str] = []
    tasks = [(chosen.seed + at // TASK, min(TASK, chosen.count - at)) for at in range(0, chosen.count, TASK)]
    with multiprocessing.Pool(multiprocessing.cpu_count()) as pool, contextlib.suppress(KeyboardInterrupt):
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
