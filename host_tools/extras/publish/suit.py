# SPDX-License-Identifier: BSD-2-Clause
"""SUIT manifests of traces: one component, fetched or in the envelope, that is compared with its digest.

Facts: draft-ietf-suit-manifest-33, "Metadata Structure", its templates, the registries of "IANA Considerations".
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cbor2

from host_tools.extras.publish.errors import DocumentError
from host_tools.extras.publish.statement import Finding
from host_tools.extras.publish.strict_json import short
from host_tools.extras.publish.suit_manifest import SHA256, loads, read_digest
from signing.delivery import Delivery
from trace_format import profile
from trace_format.errors import TraceError

COMPONENT = b"gramophone"  # the first part of a component's id; the second is the trace's name
VERSION, SEQUENCE, COMMON, REFERENCE, VALIDATE, INSTALL = 1, 2, 3, 4, 7, 20
COMPONENTS, SHARED = 2, 4
VENDOR_ID, CLASS_ID, IMAGE_DIGEST, IMAGE_SIZE, URI, DEVICE_ID = 1, 2, 3, 14, 21, 24  # parameters
IF_VENDOR, IF_CLASS, IF_IMAGE, OVERRIDE, FETCH, IF_DEVICE = 1, 2, 3, 20, 21, 24  # commands
ALL, FAILED = 15, 2  # what is to be reported of a command: all of it; that it failed
_KINDS = {VENDOR_ID: bytes, CLASS_ID: bytes, IMAGE_DIGEST: bytes, IMAGE_SIZE: int, DEVICE_ID: bytes}


def vendor_id(domain: str) -> bytes:
    """Of a domain, as the draft's "Constructing UUIDs" has it."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, domain).bytes


def class_id(vendor: bytes, name: str) -> bytes:
    """Of a vendor's class of devices, by its name."""
    return uuid.uuid5(uuid.UUID(bytes=vendor), name).bytes


@dataclass(frozen=True)
class Manifest:
    """What a manifest says of a trace.

    Attributes:
        name: of the trace.
        sequence: number that devices refuse lower ones than.
        vendor, class_: ids of 16 bytes, of the devices that it is for.
        sha256, size: of the signed trace's file.
        uri: where that is; "#" and a name: in the envelope.
        device: id of 16 bytes of the only device that it is for; None: any.
        reference: URI of this manifest; "": none is said.
    """

    name: str
    sequence: int
    vendor: bytes
    class_: bytes
    sha256: bytes
    size: int
    uri: str
    device: bytes | None = None
    reference: str = ""

    @classmethod
    def of(
        cls,
        data: bytes,
        domain: str,
        class_name: str | None,
        sequence: int | None,
        uri: str,
        device: bytes | None = None,
        reference: str = "",
    ) -> Manifest:
        """Of a signed trace.

        Args:
            data: the file.
            domain: the vendor's.
            class_name: of the devices; None: the GPU's name.
            sequence: None: the trace's security version.
            uri, device, reference: as the attributes.

        Raises:
            TraceError: it is no signed trace.
        """
        meta = Delivery(data).check()
        vendor = vendor_id(domain)
        return cls(
            str(meta["name"]),
            meta["security_version"] if sequence is None else sequence,
            vendor,
            class_id(vendor, class_name or profile.for_gpu(int(meta["gpu"])).name),
            hashlib.sha256(data).digest(),
            len(data),
            uri,
            device,
            reference,
        )

    def encode(self) -> bytes:
        """The manifest's bytes."""
        parameters: dict[int, Any] = {
            VENDOR_ID: self.vendor,
            CLASS_ID: self.class_,
            IMAGE_DIGEST: cbor2.dumps([SHA256, self.sha256]),
            IMAGE_SIZE: self.size,
            **({DEVICE_ID: self.device} if self.device else {}),
        }
        conditions = [IF_VENDOR, ALL, IF_CLASS, ALL, *([IF_DEVICE, ALL] if self.device else [])]
        common = {
            COMPONENTS: [[COMPONENT, self.name.encode()]],
            SHARED: cbor2.dumps([OVERRIDE, parameters, *conditions]),
        }
        found: dict[int, Any] = {
            VERSION: 1,
            SEQUENCE: self.sequence,
            COMMON: cbor2.dumps(common),
            **({REFERENCE: self.reference} if self.reference else {}),
            VALIDATE: cbor2.dumps([IF_IMAGE, ALL]),
            INSTALL: cbor2.dumps([OVERRIDE, {URI: self.uri}, FETCH, FAILED, IF_IMAGE, ALL]),
        }
        return cbor2.dumps(found)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read one of a trace.

        Raises:
            DocumentError: it is none, or has other commands or elements than `encode` writes, or in another order:
                what is not understood cannot be said to hold.
        """
        found = _map(loads(data, "the manifest"), "the manifest", VERSION, SEQUENCE, COMMON, VALIDATE, INSTALL)
        _equal(found[VERSION], 1, "the manifest's version")
        common = _map(_inner(found, COMMON, "the common part"), "the common part", COMPONENTS, SHARED)
        match common[COMPONENTS]:
            case [[bytes(first), bytes(raw)]] if first == COMPONENT:
                name = _text(raw)
            case other:
                raise DocumentError("components", expected=f"one, of {COMPONENT.decode()}", found=short(other))
        shared = _inner(common, SHARED, "the shared sequence")
        if not isinstance(shared, list) or len(shared) < 2 or shared[0] != OVERRIDE:
            raise DocumentError("the shared sequence", expected="parameters first", found=short(shared))
        parameters = _parameters(shared[1])
        device = parameters.get(DEVICE_ID)
        _equal(_inner(found, VALIDATE, "validation"), [IF_IMAGE, ALL], "validation")
        install = _inner(found, INSTALL, "installation")
        match install:
            case [_, {21: str(uri)}, *_]:
                pass
            case _:
                raise DocumentError("installation", expected="a URI", found=short(install))
        manifest = cls(
            name,
            _number(found[SEQUENCE], "the sequence number"),
            parameters[VENDOR_ID],
            parameters[CLASS_ID],
            read_digest(parameters[IMAGE_DIGEST], "the image's digest"),
            _number(parameters[IMAGE_SIZE], "the image's size"),
            uri,
            device,
            found.get(REFERENCE) or "",
        )
        if not isinstance(manifest.reference, str) or manifest.encode() != data:
            raise DocumentError(
                "the manifest",
                expected="the elements and commands of a trace's (docs/PROVENANCE.md)",
                found="others, or in another order",
            )
        return manifest

    def compare(
        self,
        *,
        vendor: str | None = None,
        class_name: str | None = None,
        device: bytes | None = None,
        least: int = 0,
    ) -> Iterator[Finding]:
        """Why it is not for a device.

        Args:
            vendor: the device's domain; None: not asked.
            class_name: of its class, None: not asked; of the vendor that is given.
            device: its id; None: not asked.
            least: lowest sequence number that it takes.
        """
        if vendor is not None and vendor_id(vendor) != self.vendor:
            yield Finding("vendor", f"for devices of another vendor than {vendor}, of id {self.vendor.hex()}")
        if class_name is not None and class_id(self.vendor, class_name) != self.class_:
            yield Finding(
                "class", f"for devices of another class than {class_name}: its id is {self.class_.hex()}"
            )
        if device is not None and self.device not in (None, device):
            yield Finding(
                "device", f"for another device: expected {device.hex()}, found {(self.device or b'').hex()}"
            )
        if self.sequence < least:
            yield Finding("sequence", f"sequence number: expected at least {least}, found {self.sequence}")

    def check_payload(self, data: bytes) -> Iterator[Finding]:
        """Why bytes are not the trace that it is about."""
        if len(data) != self.size:
            yield Finding("payload-size", f"size of the payload: expected {self.size}, found {len(data)}")
            return
        found = hashlib.sha256(data).digest()
        if found != self.sha256:
            yield Finding(
                "payload-digest", f"SHA-256 of the payload: expected {self.sha256.hex()}, found {found.hex()}"
            )
            return
        try:
            meta = Delivery(data).check()
        except TraceError as error:
            yield Finding("payload-kind", f"the payload is no signed trace: {error}")
            return
        name = str(meta["name"])
        if name != self.name:
            yield Finding("component", f"name of the trace: expected {self.name!r}, found {name!r}")


def _inner(found: Mapping[int, Any], key: int, what: str) -> Any:
    if not isinstance(found[key], bytes):
        raise DocumentError(what, expected="a byte string", found=short(found[key]))
    return loads(found[key], what)


def _map(value: Any, what: str, *needed: int) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise DocumentError(what, expected="a map", found=short(value))
    missing = [key for key in needed if key not in value]
    if missing:
        raise DocumentError(f"{what}: elements", expected=list(needed), found=short(list(value)))
    return value


def _parameters(value: Any) -> dict[int, Any]:
    found = _map(value, "parameters", VENDOR_ID, CLASS_ID, IMAGE_DIGEST, IMAGE_SIZE)
    for key, one in found.items():
        if key not in _KINDS or not isinstance(one, _KINDS[key]):
            raise DocumentError(
                "a parameter", expected=f"one of {sorted(_KINDS)}", found=f"{short(key)}: {short(one)}"
            )
    for key in (VENDOR_ID, CLASS_ID, DEVICE_ID):
        if key in found and len(found[key]) != 16:
            raise DocumentError(f"parameter {key}", expected="a UUID of 16 bytes", found=short(found[key]))
    return found


def _number(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise DocumentError(what, expected="an integer from 0 to 2^64 - 1", found=short(value))
    return value


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DocumentError("the component's name", expected="UTF-8", found=short(raw)) from None


def _equal(value: Any, expected: Any, what: str) -> None:
    if value != expected or isinstance(value, bool):
        raise DocumentError(what, expected=expected, found=short(value))
