# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone sign`, `strip` and `verify`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import click

from host_tools.api.keys import anchors_of
from host_tools.api.signatures import checked
from host_tools.audit.judgement import REFUSED_BY_DEVICES, judge
from host_tools.audit.limits import unusual
from host_tools.commands.additions import JUDGES, FileJudge, takes, verdicts, with_fields
from host_tools.commands.decryption_keys import read_recipients
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.keys import key_data
from host_tools.commands.results import AlgorithmName
from host_tools.commands.shares import share
from host_tools.commands.signers import DeviceId, Trust, chosen, signer_options, trust_data
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.model.summary import Summary, summary, unsigned
from host_tools.model.summary import lines as summary_lines
from host_tools.support.progress import phase
from host_tools.support.results import Count, Id, Ids, Result, one_of
from signing import encryption
from signing.cose_sign import Signatures
from signing.delivery import Delivery
from signing.keys import Algorithm
from signing.sign import check_single, signature_of, to_be_signed
from signing.trust import Policy
from signing.trust_verdict import Judge
from signing.verify import Verdict
from tee_replayer.generator.target import drivers
from trace_format import layout
from trace_format.codec import Buffer
from trace_format.errors import EncryptedError, MagicError
from trace_format.schema import SIGNED_MAGIC, TRACE_MAGIC
from trace_format.trace import Trace


class Signed(Result):
    """A signed trace, or what is to be signed of one, that was written.

    Attributes:
        signed: False: the bytes that are to be signed were written.
        missing: Under a trust policy: why devices refuse it yet.
        proven_recipients: Those that this command encrypted it for, or whose key opened it; the others are claims.
    """

    file: str
    algorithm: AlgorithmName
    key_id: Ids
    signed: bool
    missing: list[str]
    recipients: list[Id]
    proven_recipients: list[Id]
    trace_bytes: Count
    bytes: Count
    summary: Summary


class Stripped(Result):
    """A trace without its signature."""

    file: str
    bytes: Count
    removed_bytes: Count


class Verified(Result):
    """Who signed a trace.

    Attributes:
        trust: What came of it under a trust policy.
    """

    file: str
    verdict: Annotated[str, one_of(*(word.value for word in Verdict), REFUSED_BY_DEVICES, *verdicts(JUDGES))]
    reason: str
    algorithm: AlgorithmName | None
    key_id: Ids | None
    trust: Trust | None
    summary: Summary | None


VERIFIED = with_fields(Verified, JUDGES)


@click.command(
    cls=GramophoneCommand,
    reads_traces=True,
    keeps_encrypted=True,
    example=(
        "gramophone sign net.gtr --signing-key owner.pem -o net.sgtr\n"
        "gramophone sign net.gtr --pkcs11 'pkcs11:token=owner;object=net' --passphrase-file pin -o net.sgtr\n"
        "gramophone sign net.gtr --public-key pub.pem --signer-command 'openssl dgst -sha256 -sign k.pem' -o OUT"
    ),
    in_place="replace",
)
@click.argument("trace", type=FILE)
@signer_options
@click.option(
    "--trust-policy",
    "policy_file",
    type=FILE,
    help="Trust policy (.gtp) to sign under: adds one of its signatures.",
)
@click.option(
    "--encrypt-for",
    type=FILE,
    multiple=True,
    help="Public key (PEM, P-256) to encrypt the trace for before signing; repeatable.",
)
@OUTPUT
@click.option("--replace", is_flag=True, help="Replace the signature of a signed trace.")
def sign(
    trace: Path,
    output: Path,
    replace: bool,
    policy_file: Path | None,
    encrypt_for: tuple[Path, ...],
    **who: Any,
) -> Outcome[Signed]:
    """Sign a trace. The same trace and key always give the same bytes.

    A summary of the trace is printed. `sign` refuses malformed traces and forbidden register accesses
    (docs/REGISTERS.md). It also refuses traces that no device can replay, such as a V3D's job with code outside
    the image (docs/RULES.md). It accepts all traces that `gramophone build` makes from recordings.

    The key can be in a file, on a PKCS#11 token, with a program that signs, or on another machine. For another
    machine, --to-be-signed writes the bytes to sign, and --signature reads the signature.

    With --trust-policy, `sign` adds one of the signatures that the trust policy requires. It also adds the
    policy's newer versions, for devices with an older one.
    """
    file = read(trace)
    check_output(output)
    data, offset, shares = _given(file, trace, adds=policy_file is not None, replace=replace)
    by = chosen(**who)
    if encrypt_for and (by.signer is None or by.file):
        raise UsageError(
            "--encrypt-for makes other bytes each time, so they cannot be signed elsewhere: 'gramophone encrypt' "
            "first, then sign what it wrote"
        )
    recipients = read_recipients(encrypt_for)
    content = checked(data, str(trace), offset)
    if recipients:
        data, shares = memoryview(encryption.encrypt(encryption.opened(data), recipients)), None
    missing: list[str] = []
    if policy_file:
        front, missing = share(data, content, by, policy_file, shares)
    elif by.signer:
        with phase(f"signing {trace}"), by.naming():
            front = signature_of(data, by.signer)
    else:
        check_single(by.public)
        front = to_be_signed(data, by.public)
    kids, proven = encryption.recipients(data), encryption.proven(data, recipients)
    written: tuple[Buffer, ...] = (front, data) if by.signer else (front,)
    with phase(f"writing {output}"):
        write(output, *written)
    bytes_ = sum(len(part) for part in written)
    done = "signed by" if by.signer else "to be signed by"
    _warn(trace, content, by.public.algorithm, policy_file is not None)
    return Outcome(
        Signed(
            file=str(output),
            **key_data(by.public),
            signed=by.signer is not None,
            missing=missing,
            recipients=[kid.hex() for kid in kids],
            proven_recipients=[kid.hex() for kid in proven],
            trace_bytes=len(data),
            bytes=bytes_,
            summary=summary(content),
        ),
        "\n".join(
            [
                f"{output}: {bytes_} bytes, {done} {by.public.algorithm.title} key {by.public.kid.hex()}",
                *missing,
                *(_recipient(kid, proven) for kid in kids),
                *summary_lines(content),
            ]
        ),
    )


def _warn(trace: Path, content: Trace, algorithm: Algorithm, policy: bool) -> None:
    """What was signed all the same."""
    for warning in _device_warnings(content, algorithm, policy):
        warn(f"{trace}: {warning}")
    for finding in unusual(content):
        warn(f"{trace}: {finding.text} [{finding.rule.id}]")
    if content.raw:
        warn(
            f"{trace} is a raw recording, which another device may not be able to replay; "
            "'gramophone build' makes a trace of it"
        )


def _recipient(kid: bytes, proven: Sequence[bytes]) -> str:
    if kid in proven:
        return f"encrypted for {kid.hex()}"
    return f"claims to be encrypted for {kid.hex()}: only that key can prove it"


@click.command(
    cls=GramophoneCommand, reads_traces=True, keeps_encrypted=True, example="gramophone strip net.sgtr -o net.gtr"
)
@click.argument("signed", type=FILE)
@OUTPUT
def strip(signed: Path, output: Path) -> Outcome[Stripped]:
    """Remove the signature from a trace. Nothing is verified; `verify` does that."""
    delivery = Delivery(read(signed))
    check_output(output)
    with layout.naming(str(signed)):
        with contextlib.suppress(EncryptedError):
            delivery.parse()
        found = delivery.signed
    content = found.trace
    write(output, content)
    return Outcome(
        Stripped(str(output), len(content), found.offset),
        f"{output}: {len(content)} bytes, without a signature",
    )


def _given(file: bytes, path: Path, *, adds: bool, replace: bool) -> tuple[memoryview, int, Signatures | None]:
    """The trace in a file, where it starts, and signatures that it has and keeps.

    Args:
        file: its content.
        path: its name.
        adds: a signature is added to those that it has.
        replace: they are left out.

    Raises:
        TraceError: it is signed, and neither is wanted; or it is malformed.
    """
    if not file.startswith(SIGNED_MAGIC):
        return memoryview(file), 0, None
    if not adds and not replace:
        raise MagicError(
            "signed already (--replace gives it another signature, 'gramophone strip' takes it away)",
            offset=0,
            expected=TRACE_MAGIC.hex(),
            found=SIGNED_MAGIC.hex(),
            file=str(path),
        )
    with layout.naming(str(path)):
        found = Delivery(file).signed
        return found.trace, found.offset, None if replace else found.signatures[0]


def _device_warnings(trace: Trace, algorithm: Algorithm, is_under_policy: bool) -> Iterator[str]:
    """Why devices of this version cannot replay a trace although it is well signed."""
    if not is_under_policy and algorithm is not Algorithm.ES256:
        yield f"devices with one key verify ES256 only, and not {algorithm.title}: it counts under a trust policy"
    if trace.gpu not in drivers():
        yield f"there is no replayer for {trace.gpu}; 'gramophone build --gpu' makes a trace for another GPU"


@click.command(
    "trace",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone verify trace net.sgtr --key owner.pub.pem",
)
@click.argument("trace", type=FILE)
@click.option(
    "--key",
    type=FILE,
    required=True,
    multiple=True,
    help="Trusted public key (PEM; repeatable) or trust policy (.gtp).",
)
@click.option("--platform", help="Platform to judge for, under a trust policy; default: any.")
@click.option("--device-id", type=DeviceId(), help="Device id to judge for, under a trust policy; default: any.")
@takes(JUDGES, VERIFIED)
def verify(
    trace: Path,
    key: tuple[Path, ...],
    platform: str | None,
    device_id: bytes | None,
    judges: Sequence[FileJudge],
) -> Outcome[Verified]:
    """Verify a trace's signatures and content.

    The trace's actions are also judged, as by `sign`. Exit status 1: no trusted key signed it, the trust policy
    forbids it, every device refuses it, or a requested proof is missing.
    """
    trusted = anchors_of(key)
    if (platform or device_id) and not any(isinstance(anchor, Policy) for anchor in trusted):
        raise UsageError("--platform and --device-id are for trust policies: a key counts everywhere")
    where = Judge(platform, device_id, now=int(time.time()))
    data = read(trace)
    others = [one(data) for one in judges]
    with phase(f"verifying {trace}"):
        found = judge(Delivery(data), trusted, str(trace), where)
    refused = next((one for one in others if one.refusal), None) if found.ok else None
    ok = found.ok and refused is None
    reason = refused.refusal if refused else found.reason
    result, content = found.signature, found.content
    if found.not_judged:
        warn(found.not_judged)
    but = unsigned(content) if found.ok and content else ""
    if but:
        warn(f"{trace}: the signature does not cover {but}")
    lines = [f"{'verified' if ok else 'REFUSED'}: {reason}{', but not its weights' if but else ''}"]
    if ok:
        lines += [one.text for one in others if one.text]
    return Outcome(
        VERIFIED(
            file=str(trace),
            verdict=refused.verdict if refused else found.verdict,
            reason=reason,
            algorithm=result.algorithm.title if result.algorithm else None,
            key_id=result.kid.hex() if result.kid else None,
            trust=trust_data(result.trust) if result.trust is not None else None,
            summary=summary(content) if content else None,
            **{name: value for one in others for name, value in one.fields.items()},
        ),
        "\n".join(lines + (summary_lines(content) if content else [])),
        ok,
    )
