# SPDX-License-Identifier: BSD-2-Clause
"""in-toto statements with SLSA provenance of traces: made of what a trace says, and compared with it.

Facts: in-toto attestation framework v1, spec/v1/statement.md and resource_descriptor.md; SLSA v1.0, provenance.
What each field means for traces, and so the build type: docs/PROVENANCE.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from host_tools.extras.publish import strict_json
from host_tools.extras.publish.errors import DocumentError
from host_tools.model.origins import STACK, Origin, origins
from host_tools.support.version import VERSION
from signing import encryption
from signing.delivery import Delivery
from signing.replay_log import head_hash
from trace_format.errors import GramophoneError, listed
from trace_format.schema import SIGNED_MAGIC
from trace_format.trace import Trace

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:uuid:29e1c28d-2341-5bc9-87c6-368b39ec6325"  # docs/PROVENANCE.md#build-type
MAX_SUBJECTS = 1024
MAX_DEPENDENCIES = 65536


@dataclass(frozen=True)
class Subject:
    """A trace that a statement is about.

    Attributes:
        file: its name, without a folder.
        sha256: of the file, in hexadecimal.
        trace: what it says.
        trace_sha256: of the trace without its envelope; the same of one that is not signed.
        head_sha256: of its head, which devices log and attest.
    """

    file: str
    sha256: str
    trace: Trace
    trace_sha256: str
    head_sha256: str

    @classmethod
    def of(cls, data: bytes, file: str) -> Subject:
        """A file with a trace, signed or not; TraceError where it is none. No signature is verified."""
        inner: bytes = data
        if data.startswith(SIGNED_MAGIC):
            delivery = Delivery(data)
            trace, inner = delivery.parse(), bytes(delivery.signed.trace)
        else:
            trace = encryption.parse(data, file)
        return cls(
            os.path.basename(file),
            hashlib.sha256(data).hexdigest(),
            trace,
            hashlib.sha256(inner).hexdigest(),
            head_hash(inner).hex(),
        )

    @property
    def name(self) -> str:
        """Of the trace."""
        return str((Trace.META_DEFAULTS | self.trace.meta)["name"])


@dataclass(frozen=True)
class Finding:
    """Why a statement does not count.

    Attributes:
        fault: a word for programs.
        text: a sentence.
    """

    fault: str
    text: str


def builder_of(kid: bytes) -> str:
    """URI of whoever has a key: its id as RFC 6920 writes it, which is the first 16 bytes of a SHA-256."""
    return f"ni:///sha-256-128;{base64.urlsafe_b64encode(kid).decode().rstrip('=')}"


def make(subject: Subject, builder: str, sources: Mapping[str, str]) -> bytes:
    """A statement about a trace; the same trace always gives the same bytes.

    Args:
        subject: the trace.
        builder: URI of who vouches for it.
        sources: SHA-256 of files that are here, in hexadecimal -> name; each must be one that the trace names.

    Raises:
        GramophoneError: the trace was not made of one of the files, as far as it says.
    """
    known = {origin.sha256: origin.name for origin in origins(subject.trace) if origin.sha256}
    for digest, file in sources.items():
        if digest not in known:
            raise GramophoneError(
                f"{file}: the trace does not say that it was made of this file: expected the SHA-256 of "
                f"{listed(f'{name} ({sha256})' for sha256, name in known.items())}, found {digest}"
            )
    subjects = [{"name": subject.file, "digest": {"sha256": subject.sha256}}]
    if subject.trace_sha256 != subject.sha256:
        name = f"{subject.file} without its envelope"
        subjects.append({"name": name, "digest": {"sha256": subject.trace_sha256}})
    statement = {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": _definition(subject, frozenset(sources)),
            "runDetails": {"builder": {"id": builder, "version": {"gramophone": VERSION}}},
        },
    }
    return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _definition(subject: Subject, checked: frozenset[str]) -> dict[str, Any]:
    trace = subject.trace
    meta = Trace.META_DEFAULTS | trace.meta
    passes = trace.notes.get("passes")
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "name": subject.name,
            "gpu": trace.gpu,
            "security_version": meta["security_version"],
            "passes": [str(one) for one in passes] if isinstance(passes, list) else [],
        },
        "internalParameters": {
            "trace_id": trace.trace_id.hex(),
            "head_sha256": subject.head_sha256,
            "raw": trace.raw,
        },
        "resolvedDependencies": [_dependency(origin, checked) for origin in origins(trace)],
    }


def _dependency(origin: Origin, checked: frozenset[str]) -> dict[str, Any]:
    """A resource descriptor; `checked`: whether the file was here and had this hash, or the trace says so only."""
    annotations: dict[str, Any] = {"kind": origin.kind.value, "checked": origin.sha256 in checked}
    if origin.kind in STACK:
        annotations["claim"] = origin.claim
    found: dict[str, Any] = {"name": origin.name, "annotations": annotations}
    if origin.sha256:
        return {**found, "digest": {"sha256": origin.sha256}}
    return {**found, "uri": str(origin.purl)}


@dataclass(frozen=True)
class Statement:
    """SLSA provenance that was read; nothing in it is verified.

    Attributes:
        digests: SHA-256 of the subjects, in hexadecimal -> name.
        build_type: URI.
        builder: URI.
        definition: the build's, whole.
    """

    digests: Mapping[str, str]
    build_type: str
    builder: str
    definition: Mapping[str, Any]

    @classmethod
    def decode(cls, payload: bytes, payload_type: str) -> Statement:
        """Read one.

        Raises:
            DocumentError: it is no statement, or one of another predicate.
        """
        if payload_type != PAYLOAD_TYPE:
            raise DocumentError("payloadType", expected=PAYLOAD_TYPE, found=strict_json.short(payload_type))
        found = strict_json.parse(payload, "the statement")
        for name, expected in (("_type", STATEMENT), ("predicateType", PREDICATE)):
            if found.text(name) != expected:
                raise DocumentError(
                    found.place(name), expected=expected, found=strict_json.short(found.text(name))
                )
        digests = {}
        for one in found.parts("subject", MAX_SUBJECTS):
            digest = one.part("digest")
            if "sha256" in digest:
                digests[digest.text("sha256").lower()] = one.text("name") if "name" in one else ""
        if not digests:
            raise DocumentError(found.place("subject"), expected="one with a SHA-256", found="none")
        predicate = found.part("predicate")
        definition = predicate.part("buildDefinition")
        definition.part("externalParameters")
        definition.entries("resolvedDependencies", MAX_DEPENDENCIES)
        builder = predicate.part("runDetails").part("builder").text("id")
        return cls(digests, definition.text("buildType"), builder, definition.values)

    def checked(self) -> list[str]:
        """Names of the dependencies that whoever signed had before them."""
        return [one["name"] for one in self.definition["resolvedDependencies"] if _is_checked(one)]

    def compare(
        self, subject: Subject, builder: str | None = None, sources: Mapping[str, str] | None = None
    ) -> Iterator[Finding]:
        """What in it is not so.

        Args:
            subject: the trace that it should be about.
            builder: URI of who should have built it; None: whoever.
            sources: SHA-256 of files, in hexadecimal -> name, that it should name.
        """
        if self.covers(subject) is None:
            found = listed(f"{digest} ({name})" for digest, name in self.digests.items())
            yield Finding("subject", f"about another file: expected {subject.sha256}, found {found}")
            return
        if builder is not None and builder != self.builder:
            yield Finding("builder", f"the builder: expected {builder}, found {self.builder}")
        if self.build_type != BUILD_TYPE:
            yield Finding("build-type", f"the build type: expected {BUILD_TYPE}, found {self.build_type}")
            return
        expected = _definition(subject, frozenset())
        for part in ("externalParameters", "internalParameters"):
            if self.definition.get(part) != expected[part]:
                yield Finding("parameters", f"{part}: {_difference(expected[part], self.definition.get(part))}")
        given = [_unchecked(one) for one in self.definition["resolvedDependencies"]]
        wanted = [_unchecked(one) for one in expected["resolvedDependencies"]]
        if given != wanted:
            names = [one["name"] for one in wanted if one not in given]
            names += [str(one.get("name")) if isinstance(one, dict) else "?" for one in given if one not in wanted]
            text = f"not what the trace says that it was made of: {listed(names) if names else 'another order'}"
            yield Finding("dependencies", text)
        known = {one["digest"]["sha256"] for one in wanted if "digest" in one}
        for digest, file in (sources or {}).items():
            if digest not in known:
                yield Finding("source", f"{file}: no dependency of the trace: its SHA-256 is {digest}")

    def covers(self, subject: Subject) -> str | None:
        """What it is about: "file"; "trace", whoever has signed that since; None: something else."""
        if subject.sha256 in self.digests:
            return "file"
        return "trace" if subject.trace_sha256 in self.digests else None


def _is_checked(dependency: Any) -> bool:
    if not isinstance(dependency, dict) or not isinstance(dependency.get("name"), str):
        return False
    annotations = dependency.get("annotations")
    return isinstance(annotations, dict) and annotations.get("checked") is True


def _unchecked(dependency: Any) -> Any:
    if not _is_checked(dependency):
        return dependency
    return {**dependency, "annotations": {**dependency["annotations"], "checked": False}}


def _difference(expected: Mapping[str, Any], found: Any) -> str:
    if not isinstance(found, dict):
        return f"expected an object, found {strict_json.short(found)}"
    names = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
    return "; ".join(
        f"{name}: expected {strict_json.short(expected.get(name))}, found {strict_json.short(found.get(name))}"
        for name in names[:4]
    )
