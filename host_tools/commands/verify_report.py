# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone verify attestation`: whether what a device attests is true; options that `verify log` also has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict, cast

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.option_rules import requires
from host_tools.commands.streams import read
from host_tools.commands.traces import read_trace, trace_bytes
from host_tools.runners.optee.measurement import core_measurement
from host_tools.support.elf import is_elf
from host_tools.support.results import Count, Hex, Id, Ids, Result, Sha256, one_of
from host_tools.support.tensors import Assignment, assigned, load_all
from signing import key_files
from signing.attestation import (
    NONCE_BYTES,
    Attestation,
    Expected,
    check_attestation,
    may_keep_state,
    read_attestation,
    tensor_hashes,
)
from signing.replay_log import head_hash
from signing.trust import Policy
from signing.trust_chain import Chain
from tee_replayer.generator import device
from trace_format import layout, limits
from trace_format.errors import GramophoneError
from trace_format.schema import SlotKind
from trace_format.schema.report import Status
from trace_format.trace import Trace

TRACE = click.option(
    "--trace", "traces", type=FILE, multiple=True, help="Trace that the entries may name; repeatable."
)

POLICIES = click.option(
    "--trust-policy",
    "policy_files",
    type=FILE,
    multiple=True,
    help="Trust policy (.gtp) with a version that must have accepted the traces; repeatable.",
)


class Nonce(click.ParamType[bytes]):
    """A verifier's nonce, in hexadecimal."""

    name = "HEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Its bytes."""
        try:
            nonce = bytes.fromhex(str(value))
        except ValueError:
            nonce = b""
        if len(nonce) not in NONCE_BYTES:
            self.fail(f"expected 8 to 64 bytes in hexadecimal, found {value!r}", param, ctx)
        return nonce


_NAMED = ("device", "nonce", "firmware", "policy", "trust-policy", "trace", "inputs", "outputs")


class FirmwareImage(Result):
    """The file of --firmware-image. Of a firmware.bin the hash is what is claimed."""

    file: str
    sha256: Sha256


class AttestationFinding(Result):
    """What is not as expected."""

    fault: Annotated[str, one_of("bad-signature", "no-replay", *(f"other-{name}" for name in _NAMED))]
    text: str


class Claims(TypedDict):
    """What the attestation says, whatever its signature is worth."""

    nonce: Hex
    ueid: Hex
    profile: str
    boots: Count
    firmware: Sha256
    policy: Sha256
    trace_id: Id
    trace: Sha256
    security_version: Count
    status: str
    entries: Count
    log: Sha256
    inputs: NotRequired[Sha256]
    outputs: NotRequired[Sha256]
    trust_policy: NotRequired[Sha256]
    trust_version: NotRequired[Count]


class AttestationVerified(Result):
    """What a device attests, and whether it is what was expected.

    Attributes:
        findings: Empty: it is.
        checked: What was compared.
    """

    file: str
    firmware_image: FirmwareImage | None
    key_id: Ids
    findings: list[AttestationFinding]
    claims: Claims
    checked: list[str]


def status_name(value: int) -> str:
    """Name of a replayer's status, or the number of one that has none."""
    return next((status.name for status in Status if status == value), f"{value:#010x}")


@click.command(
    "attestation",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone verify attestation report.cbor --key device-7/device.pub.pem --nonce 4a6f...91 \\\n"
        "    --firmware-image out/firmware.bin --trace net.sgtr --input data=digit.npy --expect prob=prob.npy"
    ),
)
@click.argument("report", type=FILE)
@click.option("--key", type=FILE, required=True, help="Public key (PEM) of the device.")
@click.option("--nonce", type=Nonce(), required=True, help="Nonce that the attestation was requested with.")
@click.option("--firmware-image", "firmware", type=FILE, help="Expected firmware.bin, or OP-TEE's tee.elf.")
@TRACE
@click.option(
    "--input",
    "inputs",
    type=Assignment(folders=True),
    multiple=True,
    help="Value of an input slot or parameter slot of the replay; repeatable.",
)
@click.option(
    "--expect",
    "expected",
    type=Assignment(folders=True),
    multiple=True,
    help="Exact value of an output; give once per output.",
)
@click.option(
    "--trust-policy",
    "policy",
    type=FILE,
    help="Trust policy (.gtp) whose newest version must have accepted the trace.",
)
@requires("--input", "--expect")
def verify_report_command(
    report: Path,
    key: Path,
    nonce: bytes,
    firmware: Path | None,
    traces: tuple[Path, ...],
    inputs: tuple[tuple[str | None, Path], ...],
    expected: tuple[tuple[str | None, Path], ...],
    policy: Path | None,
) -> Outcome[AttestationVerified]:
    """Verify a device's attestation of outputs.

    An attestation is about one firmware, one trace, its outputs and one nonce. Exit status 1: the attestation is
    of another device, nonce, firmware, trace, input or output.
    """
    given, wanted = assigned("input", inputs), assigned("expected output", expected)
    if wanted and len(traces) != 1:
        raise UsageError("--expect needs one --trace, which says what slots there are")
    attested = read_attestation(read(report, limits.SMALL_BYTES), file=str(report))
    public = key_files.load_public_key(read(key, limits.SMALL_BYTES), file=str(key))
    hashes: dict[str, bytes] = {}
    if firmware is not None:
        hashes |= measured(firmware)
    if policy is not None:
        hashes["trust_policy"] = policies_of(policy)[-1].hash
    if wanted:
        trace, _ = read_trace(traces[0])
        hashes |= _tensors(trace, given, wanted)
    for path in traces:
        if may_keep_state(read_trace(path)[0]):
            warn(
                f"{path}: this trace may have state, which earlier replays have changed: the attestation names "
                "the inputs of the last one only; 'verify log --attestation' shows the others (docs/LOG.md)"
            )
    heads = {head_hash(trace_bytes(path)) for path in traces} or None
    findings = list(check_attestation(attested, public, Expected(nonce, traces=heads, **hashes)))
    claims = _claims(attested)
    checked = [
        "key",
        "nonce",
        *(["traces"] if heads else []),
        *(name.replace("_", " ") for name in sorted(hashes)),
    ]
    image = FirmwareImage(str(firmware), hashlib.sha256(read(firmware)).hexdigest()) if firmware else None
    data = AttestationVerified(
        file=str(report),
        firmware_image=image,
        key_id=attested.kid.hex(),
        findings=[AttestationFinding(*finding) for finding in findings],
        claims=claims,
        checked=checked,
    )
    lines = [f"{name:16} {value}" for name, value in claims.items()]
    if image:
        lines.append(f"{'firmware image':16} {image.file}: sha256 {image.sha256}")
    lines += [f"{name}: {text}" for name, text in findings]
    verdict = "REFUSED" if findings else f"verified: {', '.join(checked)}"
    return Outcome(data, "\n".join([*lines, verdict]), ok=not findings)


def policies_of(path: Path) -> list[Policy]:
    """The versions in a trust policy's file, the oldest first.

    Raises:
        TraceError: it is no such file.
        OSError: it cannot be read.
    """
    with layout.naming(str(path)):
        return [link.policy for link in Chain.decode(read(path, limits.SMALL_BYTES)).links]


def measured(path: Path) -> dict[str, bytes]:
    """Hashes of a firmware, and of the constant in it that says whose traces it takes.

    Of OP-TEE's core, as tee.elf, what its pseudo-TA hashes: `host_tools.runners.optee.measurement`.

    Raises:
        GramophoneError: no such constant, or several; an ELF file that is not OP-TEE's core.
        OSError: the file cannot be read.
    """
    data = read(path)
    found = list(device.find(data))
    if len(found) != 1:
        raise GramophoneError(f"{path}: a firmware: expected one constant 'gr_device', found {len(found)}")
    at = found[0][0]
    return {
        "firmware": core_measurement(data, str(path)) if is_elf(data) else hashlib.sha256(data).digest(),
        "policy": hashlib.sha256(data[at : at + device.SIZE]).digest(),
    }


def _tensors(trace: Trace, inputs: dict[str, Path], outputs: dict[str, Path]) -> dict[str, bytes]:
    values = load_all(trace, inputs, SlotKind.INPUT, SlotKind.PARAMETER) | load_all(
        trace, outputs, SlotKind.OUTPUT
    )
    first, second = tensor_hashes(trace, values)
    return {"inputs": first, "outputs": second}


def _claims(attested: Attestation) -> Claims:
    def shown(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in items}

    status = status_name(attested.claims["status"])
    return cast(Claims, {**shown(attested.claims.items()), "status": status})
