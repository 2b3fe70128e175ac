# SPDX-License-Identifier: BSD-2-Clause
"""The provisioning manifest: what an image holds, in canonical JSON, a part of the image itself.

The manifest carries no signature. `check` compares it with what the image's own bytes say; who made the image is
shown by comparing the manifest's or the image's hash with one from another source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from host_tools.flash.errors import ImageError
from signing.trust import Anchor, Policy
from tee_replayer.generator.device import Device
from trace_format import profile as profiles

NAME = "gramophone.json"
FORMAT = "gramophone-provisioning-1"


@dataclass(frozen=True)
class Piece:
    """Bytes of the image that have a meaning of their own.

    Attributes:
        name: file in the image; for a part of a file, "FILE/PART" with the part's name in its container.
        offset: in the image, of its first byte.
        bytes: size.
        sha256: of its bytes, in hex.
    """

    name: str
    offset: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class SignedTrace:
    """A signed trace in the image.

    Attributes:
        file: piece that holds it.
        name: of the trace.
        trace_id: identity, in hex.
        security_version: the device refuses it when its own is higher.
        key_id: who signed it, in hex.
    """

    file: str
    name: str
    trace_id: str
    security_version: int
    key_id: str


@dataclass(frozen=True)
class TrustedApplication:
    """A signed TA in the image.

    Attributes:
        file: piece that holds it.
        uuid: which TA.
        version: of its header.
        key_sha256: SHA-256 of the SubjectPublicKeyInfo of its signer, in hex.
    """

    file: str
    uuid: str
    version: int
    key_sha256: str


@dataclass(frozen=True)
class Missing:
    """What the board needs besides the image, and its owner must supply.

    Attributes:
        name: of the file or part.
        why: what it is, and what happens without it.
    """

    name: str
    why: str


@dataclass(frozen=True)
class Manifest:
    """What is in an image.

    Attributes:
        format: version of this list, `gramophone-provisioning-1`.
        tool: program that packed it; a claim, nothing in the image shows it.
        platform: board or environment.
        gpu: name of the GPU profile.
        profile_id: hash of that profile, in hex.
        key_id: id of the device's key, in hex: whose traces it accepts.
        key_sha256: SHA-256 of that key's SubjectPublicKeyInfo, in hex.
        min_security_version: the device refuses older traces.
        pieces: every file of the image but the manifest, and parts of files, in the order of their offsets.
        traces: those in the image.
        trusted_applications: those in the image.
        missing: what the board needs besides it.
        image_bytes: size of the image.
        image_sha256: of the image with the manifest's own bytes taken as zeros, in hex.
    """

    tool: str
    platform: str
    gpu: str
    profile_id: str
    key_id: str
    key_sha256: str
    min_security_version: int
    pieces: tuple[Piece, ...]
    traces: tuple[SignedTrace, ...]
    trusted_applications: tuple[TrustedApplication, ...]
    missing: tuple[Missing, ...]
    image_bytes: int
    image_sha256: str
    format: str = FORMAT

    def encode(self) -> bytes:
        """Its one encoding: keys sorted, two blanks of indentation, ASCII, a newline at the end."""
        return json.dumps(asdict(self), indent=2, sort_keys=True).encode("ascii") + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest; ImageError unless it is as `encode` writes it."""
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ImageError(f"{NAME} is not JSON ({error})", offset=getattr(error, "pos", 0)) from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            found = values.get("format") if isinstance(values, dict) else type(values).__name__
            raise ImageError(f"format of {NAME}", offset=0, expected=FORMAT, found=found)
        manifest: Manifest = _record(cls, values, NAME)
        encoded = manifest.encode()
        if encoded != data:
            at = next((i for i, (a, b) in enumerate(zip(encoded, data, strict=False)) if a != b), len(encoded))
            raise ImageError(f"{NAME} is not in its canonical form", offset=min(at, len(data)))
        return manifest


_LISTS: dict[str, Callable[..., Any]] = {
    "pieces": Piece,
    "traces": SignedTrace,
    "trusted_applications": TrustedApplication,
    "missing": Missing,
}


def _record(kind: Callable[..., Any], values: Any, where: str) -> Any:
    """A dataclass of JSON values, whose names and types must be its fields'."""
    expected = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(values, dict) or values.keys() != expected.keys():
        found = sorted(values) if isinstance(values, dict) else type(values).__name__
        raise ImageError(f"fields of {where}", expected=", ".join(sorted(expected)), found=found)
    made = {}
    for name, value in values.items():
        if name in _LISTS:
            if not isinstance(value, list):
                raise ImageError(f"{where}, {name}", expected="a list", found=type(value).__name__)
            made[name] = tuple(_record(_LISTS[name], row, f"{where}, {name}") for row in value)
        else:
            if type(value).__name__ != expected[name] or (isinstance(value, int) and value < 0):
                raise ImageError(f"{where}, {name}", expected=f"{expected[name]}, not negative", found=repr(value))
            made[name] = value
    return kind(**made)


def sha256(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def key_sha256(key: Anchor) -> str:
    """SHA-256 of a key's SubjectPublicKeyInfo, or of a trust policy, in hex; the id is its first half."""
    if isinstance(key, Policy):
        return sha256(key.raw)
    return sha256(key.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def gpu_name(profile_id: int) -> str:
    """Name of the GPU profile with this hash; empty when it is none of this version's."""
    return next((name for name in profiles.names() if profiles.load(name).profile_id == profile_id), "")


def device_fields(device: Device) -> dict[str, Any]:
    """The manifest's fields that a firmware's own bytes say."""
    return {
        "platform": device.platform,
        "gpu": gpu_name(device.profile_id),
        "profile_id": f"{device.profile_id:#018x}",
        "key_id": device.key.kid.hex(),
        "key_sha256": key_sha256(device.key),
        "min_security_version": device.min_security_version,
    }
