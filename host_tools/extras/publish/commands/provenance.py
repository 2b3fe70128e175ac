# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone publish provenance` and `verify provenance`: statements of what a trace was made of."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Annotated, Any

import click

from host_tools.api.keys import anchors_of
from host_tools.commands.extras import extra
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.keys import key_data
from host_tools.commands.option_rules import excludes
from host_tools.commands.results import AlgorithmName
from host_tools.commands.signers import chosen, signer_options
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.extras.publish.commands.transparency import LogEntry, logged, transparency_options
from host_tools.extras.publish.commands.transparency import words as log_words
from host_tools.extras.publish.dsse import Envelope
from host_tools.support.results import Count, Ids, Result, fields, one_of
from signing.keys import PublicKey
from signing.trust import Anchor, Policy
from trace_format import layout, limits
from trace_format.errors import GramophoneError, printable
from trace_format.schema.trust import KeyKind

SOURCE = click.option(
    "--source",
    "sources",
    type=FILE,
    multiple=True,
    help="File that the trace says it was made of, to compare its hash; repeatable.",
)


_FAULTS = (
    *("policy", "signature", "subject", "builder", "build-type", "parameters", "dependencies", "source"),
    "transparency",
)


class StatementFacts(Result):
    """What a statement says.

    Attributes:
        builder: URI of who vouches for it.
        subjects: SHA-256 of what it is about.
        dependencies: How many things it names that the trace was made of.
        checked: Those whose files whoever signed had hashed.
    """

    builder: str
    subjects: list[str]
    dependencies: Count
    checked: list[str]


class StatementWritten(Result):
    """A statement of what a trace was made of, that was written.

    Attributes:
        signed: False: what is to be signed was written.
        builder: URI of who vouches for it.
        subjects: SHA-256 of what it is about.
        dependencies: How many things it names that the trace was made of.
        checked: Those whose files whoever signed had hashed.
    """

    file: str
    algorithm: AlgorithmName
    key_id: Ids
    signed: bool
    builder: str
    subjects: list[str]
    dependencies: Count
    checked: list[str]


class ProvenanceFinding(Result):
    """What is not as it must be."""

    fault: Annotated[str, one_of(*_FAULTS)]
    text: str


class ProvenanceVerified(Result):
    """Whether a statement of provenance counts, and what it says.

    Attributes:
        signed_by: Trusted keys of which there is a good signature.
        covers: What it is about: the file; the trace in it, whose envelope is another now.
        transparency: The entry of a transparency log about it; null: none was asked for, or there is none.
    """

    file: str
    signed_by: list[Ids]
    findings: list[ProvenanceFinding]
    covers: Annotated[str, one_of("file", "trace")] | None
    transparency: LogEntry | None
    statement: StatementFacts | None


@click.command(
    "provenance",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone publish provenance net.sgtr --signing-key owner.pem -o net.intoto.jsonl\n"
        "gramophone publish provenance net.sgtr --source net.raw.gtr --signing-key owner.pem -o OUT\n"
        "gramophone publish provenance net.sgtr --statement net.intoto.jsonl --signing-key b.pem -o both.jsonl"
    ),
)
@click.argument("trace", type=FILE)
@signer_options
@SOURCE
@click.option("--builder", metavar="URI", help="Builder of the trace (URI); default: the key that signs.")
@click.option("--statement", type=FILE, help="Signed statement to add a signature to.")
@OUTPUT
@excludes("--statement", "--source", "--builder")
def provenance(
    trace: Path,
    sources: tuple[Path, ...],
    builder: str | None,
    statement: Path | None,
    output: Path,
    **who: Any,
) -> Outcome[StatementWritten]:
    """Write a signed statement of a trace's provenance.

    The file is an in-toto statement with SLSA provenance, beside the trace. It names the trace by its SHA-256.
    It repeats the trace's claims about the recording, the network's files, the driver and the packages. Files of
    --source are hashed, and the statement marks them as checked.
    """
    with extra("provenance", "packageurl"):
        from host_tools.extras.publish.statement import PAYLOAD_TYPE, Statement, Subject, builder_of, make
    check_output(output)
    with layout.naming(str(trace)):
        subject = Subject.of(read(trace), str(trace))
    by = chosen(**who)
    if statement:
        with layout.naming(str(statement)):
            envelope = Envelope.decode(read(statement, limits.SMALL_BYTES))
            found = Statement.decode(envelope.payload, envelope.payload_type)
        if wrong := next(found.compare(subject), None):
            raise GramophoneError(f"{statement}: {wrong.text}: it is not signed")
    else:
        payload = make(subject, builder or builder_of(by.public.kid), hashes(sources))
        envelope, found = Envelope(payload, PAYLOAD_TYPE), Statement.decode(payload, PAYLOAD_TYPE)
    if by.signer:
        with by.naming():
            envelope = envelope.signed(by.signer)
    write(output, envelope.encode() if by.signer else envelope.tbs)
    done = "signed by" if by.signer else "to be signed by"
    return Outcome(
        StatementWritten(
            file=str(output), **key_data(by.public), signed=by.signer is not None, **fields(_facts(found))
        ),
        f"{output}: {done} {by.public.algorithm.title} key {by.public.kid.hex()}\n{_words(found)}",
    )


@click.command(
    "provenance",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone verify provenance net.intoto.jsonl --trace net.sgtr --key owner.pub.pem",
)
@click.argument("statement", type=FILE)
@click.option("--trace", type=FILE, required=True, help="Trace that the statement must name.")
@click.option(
    "--key",
    type=FILE,
    required=True,
    multiple=True,
    help="Trusted public key (PEM; repeatable), or trust policy (.gtp) whose signers of this trace count.",
)
@SOURCE
@click.option("--builder", metavar="URI", help="Expected builder (URI); default: any.")
@transparency_options
def verify_provenance(
    statement: Path,
    trace: Path,
    key: tuple[Path, ...],
    sources: tuple[Path, ...],
    builder: str | None,
    transparency: Path | None,
    transparency_key: Path | None,
) -> Outcome[ProvenanceVerified]:
    """Verify a signed statement of a trace's provenance.

    The statement must be signed by a trusted key, name this trace, and agree with the trace's manifest. The
    trace's own signature is not verified; `verify trace` does that. Exit status 1: the key or the trace is
    another one.
    """
    with extra("provenance", "packageurl"):
        from host_tools.extras.publish.statement import Finding, Statement, Subject
    trusted = anchors_of(key)
    with layout.naming(str(statement)):
        envelope = Envelope.decode(read(statement, limits.SMALL_BYTES))
    with layout.naming(str(trace)):
        subject = Subject.of(read(trace), str(trace))
    with layout.naming(str(statement)):
        public, threshold, refusal = _role(trusted, subject.name)
        signers = envelope.signers(public)
        findings: list[Finding] = []
        found = None
        if refusal:
            findings = [Finding("policy", refusal)]
        elif len(signers) < threshold:
            known = ", ".join(sorted(one.kid.hex() for one in public))
            hints = ", ".join(printable(hint) or "no id" for hint, _ in envelope.signatures)
            text = f"good signatures: expected {threshold} of {known}, found {len(signers)} among those of {hints}"
            findings = [Finding("signature", text)]
        else:  # nothing is read of what nobody has signed
            found = Statement.decode(envelope.payload, envelope.payload_type)
            findings = list(found.compare(subject, builder, hashes(sources)))
    entry, not_logged = logged(
        transparency, transparency_key, lambda proof, public: proof.entry_of_envelope(envelope, public)
    )
    if not_logged:
        findings.append(Finding("transparency", not_logged))
    kids = sorted(kid.hex() for kid in signers)
    data = ProvenanceVerified(
        file=str(statement),
        signed_by=kids,
        findings=[ProvenanceFinding(one.fault, one.text) for one in findings],
        covers=found.covers(subject) if found else None,
        transparency=entry,
        statement=_facts(found) if found else None,
    )
    lines = [f"{statement}: {one.fault}: {printable(one.text)}" for one in findings]
    if not findings and found:
        what = "this file" if found.covers(subject) == "file" else "this trace, which has been signed anew since"
        lines = [f"verified: signed by {', '.join(kids)}, about {what}", _words(found)]
        lines += [log_words(entry)] if entry else []
    return Outcome(data, "\n".join(lines if not findings else [*lines, "REFUSED"]), ok=not findings)


def hashes(paths: tuple[Path, ...]) -> dict[str, str]:
    """SHA-256 of files, in hexadecimal -> name."""
    return {hashlib.sha256(read(path, limits.MODEL_BYTES)).hexdigest(): str(path) for path in paths}


def _role(trusted: list[Anchor], name: str) -> tuple[list[PublicKey], int, str]:
    """Whose signatures count for traces of a name, how many of them it takes, and why none does."""
    policies = [anchor for anchor in trusted if isinstance(anchor, Policy)]
    if not policies:
        return [anchor for anchor in trusted if isinstance(anchor, PublicKey)], 1, ""
    (policy,) = policies
    now = time.time()
    if now < policy.not_before or (policy.not_after and now > policy.not_after):
        return [], 1, f"version {policy.version} of trust policy {policy.name} does not hold today"
    rule = policy.rule(name.encode())
    if rule is None:
        return [], 1, f"no rule of trust policy {policy.name} is about traces named {name!r}"
    found = [policy.key(kid) for kid in sorted(rule.role.kids)]
    # DSSE has no signature of two halves: one of a hybrid key alone counts for nothing.
    keys = [one.first for one in found if one and one.kind is KeyKind.ES256]
    return [key for key in keys if key], rule.role.threshold, ""


def _facts(found: Any) -> StatementFacts:
    dependencies = found.definition["resolvedDependencies"]
    return StatementFacts(found.builder, sorted(found.digests), len(dependencies), found.checked())


def _words(found: Any) -> str:
    facts = _facts(found)
    checked = ", ".join(map(printable, facts.checked)) or "none of them"
    return (
        f"built by {printable(facts.builder)} of {facts.dependencies} things that the trace names; "
        f"checked before it was signed: {checked}"
    )
