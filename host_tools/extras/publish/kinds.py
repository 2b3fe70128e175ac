# SPDX-License-Identifier: BSD-2-Clause
"""What a file is that goes with a published trace, and its main figures, for `inspect`. Nothing is verified."""

from __future__ import annotations

from typing import Any

from host_tools.extras.publish import strict_json
from host_tools.extras.publish.strict_json import Fields

Figures = dict[str, Any]
SUIT_MAGIC = b"\xd8\x6b"  # CBOR's head of tag 107
MOST_PARTS, MOST_SIGNATURES = 1 << 20, 64


def identify(data: bytes, file: str) -> tuple[str, Figures] | None:
    """What a file is; None: none of these.

    Raises:
        DocumentError: it is one, but malformed.
    """
    if data.startswith(SUIT_MAGIC):
        return _suit(data)
    if data.lstrip()[:1] != b"{":
        return None
    found = strict_json.parse(data, file)
    if "payloadType" in found:
        return _statement(data)
    if "bomFormat" in found:
        return _bill(found)
    if "signed" in found and "signatures" in found:
        return _tuf(found)
    by_id = found.values and all(isinstance(value, dict) and "body" in value for value in found.values.values())
    if by_id or "verificationMaterial" in found or "canonicalizedBody" in found:
        return _proof(data)
    return None


def _suit(data: bytes) -> tuple[str, Figures]:
    from host_tools.extras.publish.suit import Manifest
    from host_tools.extras.publish.suit_manifest import Envelope

    envelope = Envelope.decode(data)
    manifest = Manifest.decode(envelope.manifest)
    figures = {"name": manifest.name, "sequence": manifest.sequence, "sha256": manifest.sha256.hex()}
    return "SUIT envelope", figures | {"uri": manifest.uri, "signatures": len(envelope.blocks)}


def _statement(data: bytes) -> tuple[str, Figures]:
    from host_tools.extras.publish.dsse import Envelope

    envelope = Envelope.decode(data)
    figures: Figures = {"type": envelope.payload_type, "claimed keys": [kid for kid, _ in envelope.signatures]}
    statement = strict_json.parse(envelope.payload, "the statement")
    figures["subjects"] = [one.text("name") for one in statement.parts("subject", MOST_SIGNATURES)]
    return "signed statement (in-toto)", figures


def _bill(found: Fields) -> tuple[str, Figures]:
    about = found.part("metadata").part("component").text("name")
    figures = {"about": about, "components": len(found.entries("components", MOST_PARTS))}
    return f"bill of materials ({found.text('bomFormat')} {found.text('specVersion')})", figures


def _tuf(found: Fields) -> tuple[str, Figures]:
    signed = found.part("signed")
    figures: Figures = {"version": signed.integer("version"), "expires": signed.text("expires")}
    figures["claimed keys"] = [one.text("keyid") for one in found.parts("signatures", MOST_SIGNATURES)]
    return f"TUF metadata ({signed.text('_type')})", figures


def _proof(data: bytes) -> tuple[str, Figures]:
    from host_tools.extras.publish.transparency import Proof

    entries = Proof.decode(data).entries
    rows = [f"{one.index} of {one.size} of {one.checkpoint.origin} ({one.kind})" for one in entries]
    return "proof of a transparency log", {"entries": rows}
