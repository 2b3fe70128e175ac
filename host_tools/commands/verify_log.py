# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone verify log`: whether a replay log is a device's, whole and in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.option_rules import excludes, requires
from host_tools.commands.streams import read
from host_tools.commands.traces import trace_bytes
from host_tools.commands.verify_report import POLICIES, TRACE, Nonce, policies_of, status_name
from host_tools.support.results import Count, Id, Positive, Result, Sha256, one_of
from signing import device_keys, key_files
from signing.attestation import Expected, check_attestation, read_attestation
from signing.keys import KID_BYTES
from signing.log_checks import Checked, Finding, check_log
from signing.replay_log import ZERO, Entry, Tail, head_hash, read_log, read_tail
from trace_format import limits
from trace_format.errors import GramophoneError, printable
from trace_format.schema.log import LogKind

_WORDS = {LogKind.LOAD: "loaded", LogKind.REPLAY: "replayed", LogKind.REFUSAL: "refused"}


@click.command(
    "log",
    cls=GramophoneCommand,
    reads_traces=True,
    renamed={"--report": "--attestation"},
    example=(
        "gramophone verify log replay.log --log-key device-7/log.key --tail device.tail --trace net.sgtr\n"
        "gramophone verify log replay.log --attestation report.cbor --key device.pub.pem --nonce 4a6f...91"
    ),
)
@click.argument("log_file", metavar="LOG", type=FILE)
@click.option("--log-key", type=FILE, help="Log key of the device, from 'gramophone enrol'.")
@click.option("--tail", "tail_file", type=FILE, help="File with the log's tail, from the device.")
@click.option(
    "--attestation", "report", type=FILE, help="Attestation with the end of the log. Requires --key and --nonce."
)
@click.option("--key", type=FILE, help="Public key (PEM) of the device. Requires --attestation.")
@click.option(
    "--nonce", type=Nonce(), help=("Nonce that the attestation was requested with. Requires --attestation.")
)
@TRACE
@POLICIES
@excludes("--tail", "--attestation")
@requires("--attestation", "--key")
@requires("--attestation", "--nonce")
@requires("--key", "--attestation")
@requires("--nonce", "--attestation")
def verify_log_command(
    log_file: Path,
    log_key: Path | None,
    tail_file: Path | None,
    report: Path | None,
    key: Path | None,
    nonce: bytes | None,
    traces: tuple[Path, ...],
    policy_files: tuple[Path, ...],
) -> Outcome[LogVerified]:
    """Verify that a replay log is the device's and complete.

    The log key or an attestation proves the entries. Only a tail or an attestation shows that the last entries
    are not missing. Exit status 1: an entry is wrong or missing; each is named.
    """
    if log_key is None and report is None:
        raise UsageError("expected --log-key or --attestation: nothing else proves an entry")
    entries = read_log(read(log_file, limits.LOG_BYTES), file=str(log_file))
    secret = device_keys.read_log_key(read(log_key, limits.SMALL_BYTES), file=str(log_key)) if log_key else None
    tail: Tail | None = read_tail(read(tail_file, limits.SMALL_BYTES), file=str(tail_file)) if tail_file else None
    if report is not None and key is not None and nonce is not None:
        attested = read_attestation(read(report, limits.SMALL_BYTES), file=str(report))
        public = key_files.load_public_key(read(key, limits.SMALL_BYTES), file=str(key))
        for name, text in check_attestation(attested, public, Expected(nonce)):
            if name != "no-replay":  # it says where the log ends all the same
                raise GramophoneError(f"{report}: {name}: {text}")
        tail = attested.tail
    if tail is None:
        warn(f"{log_file}: without --tail or --attestation nobody can tell whether the last entries are missing")
    known = {head_hash(trace_bytes(path)): str(path) for path in traces}
    policies = {policy.hash for path in policy_files for policy in policies_of(path)}
    checked = check_log(entries, key=secret, tail=tail, traces=known or None, policies=policies or None)
    return Outcome(
        _log_data(log_file, checked, tail, known), _log_text(log_file, checked, known), ok=not checked.findings
    )


class TailFacts(Result):
    """Where a log ends."""

    entries: Count
    boots: Count
    hash: Sha256


class EntryFacts(Result):
    """An entry of a log.

    Attributes:
        position: Number of the entry in the file.
        sequence: Number that the device gave it.
        status: Name of the replayer's status (docs/FORMAT-DEVICE.md), or its number.
        subject: Hash of the trace's head; of a boot, of the firmware; zeros when no trace was verified.
        trace: The file given with --trace that it is about.
        trust_policy: Of a load: SHA-256 of the trust policy under which the trace was accepted; its id is the
            first 16 bytes.
        trust_version: Of that policy.
    """

    position: Count
    sequence: Count
    boot: Count
    kind: Annotated[str, one_of(*(kind.name.lower() for kind in LogKind), "unknown")]
    status: str
    retries: Count
    security_version: Count
    subject: Sha256
    trace_id: Id
    trace: str | None
    trust_policy: Sha256 | None
    trust_version: Positive | None
    inputs: Sha256
    outputs: Sha256


class LogVerified(Result):
    """What is wrong with a replay log.

    Attributes:
        findings: Empty: nothing is.
        tail: Where the log ends, as --tail or --attestation says.
        entries: The device's entries, each once, by their numbers.
    """

    file: str
    findings: Sequence[Finding]
    tail: TailFacts | None
    entries: list[EntryFacts]


def _log_data(file: Path, checked: Checked, tail: Tail | None, traces: dict[bytes, str]) -> LogVerified:
    return LogVerified(
        str(file),
        checked.findings,
        tail if tail is None else TailFacts(tail.entries, tail.boots, tail.hash.hex()),
        [_entry_data(entry, traces) for entry in checked.proven],
    )


def _entry_data(entry: Entry, traces: dict[bytes, str]) -> EntryFacts:
    values = entry.values
    return EntryFacts(
        position=entry.position,
        sequence=entry.sequence,
        boot=entry.boot,
        kind=entry.kind.name.lower() if entry.kind else "unknown",
        status=status_name(values["status"]),
        retries=values["retries"],
        security_version=values["security_version"],
        subject=entry.subject.hex(),
        trace_id=bytes(values["trace_id"]).hex(),
        trace=traces.get(entry.subject),
        trust_policy=entry.trust_policy.hex() or None,
        trust_version=entry.trust_version or None,
        inputs=bytes(ZERO if entry.trust_policy else values["inputs"]).hex(),
        outputs=bytes(ZERO if entry.trust_policy else values["outputs"]).hex(),
    )


def _log_text(file: Path, checked: Checked, traces: dict[bytes, str]) -> str:
    proven = checked.proven
    lines = [f"{file}: {len(proven)} entries of {len({entry.boot for entry in proven})} boots are the device's"]
    counts: Counter[tuple[bytes, LogKind | None]] = Counter()
    names: dict[bytes, str] = {}
    policies: dict[bytes, dict[bytes, int]] = defaultdict(dict)
    for entry in proven:
        if entry.kind is not LogKind.BOOT:
            counts[entry.subject, entry.kind] += 1
            if entry.trust_policy:
                policies[entry.subject][entry.trust_policy] = entry.trust_version
            given = traces.get(entry.subject)
            identity = f"trace with head {entry.subject.hex()}" + (f" ({given})" if given else "")
            names[entry.subject] = identity if any(entry.subject) else "without a good signature"
    for subject, name in names.items():
        told = [f"{n} {word}" for kind, word in _WORDS.items() if (n := counts[subject, kind])]
        lines.append(f"  {printable(name)}: {', '.join(told)}")
        for policy, version in policies[subject].items():
            lines.append(f"    accepted under trust policy {policy[:KID_BYTES].hex()}, version {version}")
    lines += [f"{found.fault.value}: {found.text}" for found in checked.findings]
    return "\n".join([*lines, "REFUSED" if checked.findings else "verified"])
