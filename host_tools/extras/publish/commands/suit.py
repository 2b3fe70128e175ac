# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone publish suit`: signed traces in SUIT envelopes (docs/PROVENANCE.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click

from host_tools.api.keys import anchors_of
from host_tools.commands.extras import extra
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.signers import DeviceId, chosen, signer_options
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.commands.tree import SubGroup
from host_tools.extras.publish.suit_manifest import Envelope
from host_tools.support.results import Count, Id, Ids, Result, Sha256, one_of
from signing.keys import PublicKey
from trace_format import layout
from trace_format.errors import printable

VENDOR = "Domain of the devices' vendor, such as example.com."


_FAULTS = ["digest", "signature", "vendor", "class", "device", "sequence", "component"]
_PAYLOAD_FAULTS = ["missing", "more", "size", "digest", "kind"]


class SuitFinding(Result):
    """What is not as it must be."""

    fault: Annotated[str, one_of(*_FAULTS, *(f"payload-{name}" for name in _PAYLOAD_FAULTS))]
    text: str


class ManifestFacts(Result):
    """What a manifest says.

    Attributes:
        uri: Where the trace is; # and a name: in the envelope.
    """

    name: str
    sequence: Count
    vendor_id: Id
    class_id: Id
    device_id: Id | None
    sha256: Sha256
    bytes: Count
    uri: str


class SuitEnvelope(Result):
    """A SUIT envelope that was made, or whether one counts.

    Attributes:
        file: That was written; null: none was.
        signed_by: Trusted keys of which there is a good signature; of export, the key that signed, or none.
        manifest: Null where nobody trusted has signed it.
    """

    file: str | None
    signed_by: list[Ids]
    findings: list[SuitFinding]
    manifest: ManifestFacts | None


@click.group("suit", cls=SubGroup, example="gramophone publish suit export net.sgtr --vendor example.com ...")
def suit_group() -> None:
    """Put a signed trace into a SUIT envelope, or take it out."""


@suit_group.command(
    "export",
    cls=GramophoneCommand,
    reads_traces=True,
    keeps_encrypted=True,
    example=(
        "gramophone publish suit export net.sgtr --vendor example.com --signing-key owner.pem -o net.suit\n"
        "gramophone publish suit export net.sgtr --vendor example.com --uri https://example.com/net.sgtr \\\n"
        "    --signing-key owner.pem -o net.suit"
    ),
)
@click.argument("trace", type=FILE)
@signer_options
@click.option("--vendor", required=True, help=VENDOR)
@click.option("--class", "class_name", help="Class of these devices; default: the GPU's name.")
@click.option(
    "--sequence", type=click.IntRange(0, 2**64 - 1), help=("Sequence number; default: the security version.")
)
@click.option("--device-id", type=DeviceId(), help="Only device that may take the trace.")
@click.option("--uri", help="URI of the trace; default: the trace is in the envelope.")
@click.option("--reference-uri", default="", help="URI of this manifest.")
@OUTPUT
def export(
    trace: Path,
    vendor: str,
    class_name: str | None,
    sequence: int | None,
    device_id: bytes | None,
    uri: str | None,
    reference_uri: str,
    output: Path,
    **who: Any,
) -> Outcome[SuitEnvelope]:
    """Make a SUIT envelope of a signed trace.

    The envelope holds the trace, its digest and size, and the class of devices that it is for
    (draft-ietf-suit-manifest-33). The manifest has its own signature. The trace keeps its signatures, which the
    replayer verifies.
    """
    with extra("provenance", "packageurl"):
        from host_tools.extras.publish.suit import Manifest
    if uri is not None and (uri.startswith("#") or not uri):
        raise UsageError("--uri: without it the trace lies in the envelope, and its URI begins with #")
    check_output(output)
    data, where = read(trace), uri or f"#{trace.name}"
    with layout.naming(str(trace)):
        manifest = Manifest.of(data, vendor, class_name, sequence, where, device_id, reference_uri)
    by = chosen(**who)
    envelope = Envelope(manifest.encode(), {} if uri else {where: data})
    if by.signer:
        with by.naming():
            envelope = envelope.signed(by.signer)
    write(output, envelope.encode() if by.signer else envelope.to_be_signed(by.public))
    done = "signed by" if by.signer else "to be signed by"
    return Outcome(
        SuitEnvelope(str(output), [by.public.kid.hex()] if by.signer else [], [], _facts(manifest)),
        f"{output}: {done} {by.public.algorithm.title} key {by.public.kid.hex()}\n{_words(manifest)}",
    )


@suit_group.command(
    "import",
    cls=GramophoneCommand,
    reads_traces=True,
    keeps_encrypted=True,
    example=(
        "gramophone publish suit import net.suit --key owner.pub.pem -o net.sgtr\n"
        "gramophone publish suit import net.suit --key owner.pub.pem --payload got.sgtr -o net.sgtr"
    ),
)
@click.argument("envelope", type=FILE)
@click.option("--key", type=FILE, required=True, multiple=True, help="Trusted public key (PEM); repeatable.")
@click.option("--payload", type=FILE, help="File with the trace, if the envelope lacks it.")
@click.option("--vendor", help=VENDOR)
@click.option("--class", "class_name", help="Class of these devices; default: the GPU's name.")
@click.option("--device-id", type=DeviceId(), help="Device id.")
@click.option(
    "--min-sequence", type=click.IntRange(0, 2**64 - 1), default=0, help="Lowest sequence number to accept."
)
@OUTPUT
def import_command(
    envelope: Path,
    key: tuple[Path, ...],
    payload: Path | None,
    vendor: str | None,
    class_name: str | None,
    device_id: bytes | None,
    min_sequence: int,
    output: Path,
) -> Outcome[SuitEnvelope]:
    """Check a SUIT envelope, and write its trace.

    The manifest's signature, the device, and the trace's size, digest and name are checked. The trace's own
    signature is not verified; `verify trace` does that. Exit status 1: a check failed, and nothing is written.
    Only manifests with one trace and no other commands are accepted.
    """
    with extra("provenance", "packageurl"):
        from host_tools.extras.publish.statement import Finding
        from host_tools.extras.publish.suit import Manifest
    check_output(output)
    trusted = [anchor for anchor in anchors_of(key) if isinstance(anchor, PublicKey)]
    if not trusted:
        raise UsageError("--key: a trust policy says who signs traces, not manifests: expected public keys")
    with layout.naming(str(envelope)):
        found = Envelope.decode(read(envelope))
        signers = sorted(kid.hex() for kid in found.signers(trusted))
        manifest, data, findings = None, b"", []
        if not found.is_whole:
            findings = [Finding("digest", "what is signed is another manifest's digest")]
        elif not signers:
            known = ", ".join(sorted(one.kid.hex() for one in trusted))
            findings = [Finding("signature", f"no good signature of {known}")]
        else:  # nothing is read of what nobody has signed
            manifest = Manifest.decode(found.manifest)
            findings = list(
                manifest.compare(vendor=vendor, class_name=class_name, device=device_id, least=min_sequence)
            )
            inside = found.payloads.get(manifest.uri)
            if set(found.payloads) - {manifest.uri}:
                findings.append(
                    Finding("payload-more", "the envelope has payloads that the manifest does not name")
                )
            if inside is None and payload is None:
                text = f"the trace is not in the envelope, but at {manifest.uri}: --payload takes it"
                findings.append(Finding("payload-missing", text))
            else:
                data = read(payload) if inside is None and payload else inside or b""
                findings += manifest.check_payload(data)
    if not findings:
        write(output, data)
    lines = [f"{envelope}: {one.fault}: {printable(one.text)}" for one in findings]
    if not findings and manifest:
        lines = [f"{output}: {len(data)} bytes, from a manifest signed by {', '.join(signers)}", _words(manifest)]
    return Outcome(
        SuitEnvelope(
            str(output) if not findings else None,
            signers,
            [SuitFinding(one.fault, one.text) for one in findings],
            _facts(manifest) if manifest else None,
        ),
        "\n".join(lines if not findings else [*lines, "REFUSED"]),
        ok=not findings,
    )


def _facts(manifest: Any) -> ManifestFacts:
    return ManifestFacts(
        name=manifest.name,
        sequence=manifest.sequence,
        vendor_id=manifest.vendor.hex(),
        class_id=manifest.class_.hex(),
        device_id=manifest.device.hex() if manifest.device else None,
        sha256=manifest.sha256.hex(),
        bytes=manifest.size,
        uri=manifest.uri,
    )


def _words(manifest: Any) -> str:
    device = f", device {manifest.device.hex()}" if manifest.device else ""
    return (
        f"trace {printable(manifest.name)}, sequence number {manifest.sequence}, "
        f"for vendor {manifest.vendor.hex()}, class {manifest.class_.hex()}{device}"
    )
