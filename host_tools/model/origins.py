# SPDX-License-Identifier: BSD-2-Clause
"""What a trace says it was made of: the recording, the network's files, the stack that ran, its packages.

All of it are claims, from the trace's manifest and notes: whoever made the trace wrote them, and nothing verifies
them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packageurl import PackageURL

from trace_format.trace import Trace

_NO_PACKAGES = ("kernel", "ncnn")  # in the notes' packages, and not Debian's: the manifest names them
# In the notes: hashes of what a network was read from, by what it is called there.
_SOURCES = {"param_sha256": "network.param", "weights_sha256": "network.bin"}
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Kind(enum.StrEnum):
    """What something is."""

    RECORDER = "recorder"
    KERNEL = "kernel"
    DRIVER = "driver"
    FRAMEWORK = "framework"
    SOURCE = "source"  # a file of the network
    RECORDING = "recording"
    PACKAGE = "package"  # of Debian, in the guest


STACK = (Kind.RECORDER, Kind.KERNEL, Kind.DRIVER, Kind.FRAMEWORK)


@dataclass(frozen=True)
class Origin:
    """Something that went into a trace.

    Attributes:
        kind: what it is.
        name: of it.
        version: None where it has none.
        sha256: of a file, in hexadecimal; None: it is not known.
        claim: the text that says so.
    """

    kind: Kind
    name: str
    version: str | None = None
    sha256: str | None = None
    claim: str = ""

    @property
    def purl(self) -> PackageURL:
        """Name of a package (https://github.com/package-url/purl-spec)."""
        if self.kind is Kind.PACKAGE:
            return PackageURL("deb", "debian", self.name, self.version, {"arch": "arm64"})
        return PackageURL("generic", None, self.name, self.version)


def origins(trace: Trace) -> Iterator[Origin]:
    """What went into a trace, as it says; a note that is no hash or package is left out."""
    meta = Trace.META_DEFAULTS | trace.meta
    for kind in STACK:
        if text := str(meta[kind]):
            what, _, version = text.rpartition(" ")
            yield Origin(kind, what or text, version if what else None, claim=text)
    model = trace.notes.get("model")
    sources = {name: trace.notes.get(key) for key, name in _SOURCES.items()}
    sources["model"] = model.get("file_sha256") if isinstance(model, dict) else None
    for name, digest in sources.items():
        if isinstance(digest, str) and _SHA256.fullmatch(digest):
            yield Origin(Kind.SOURCE, name, sha256=digest)
    if any(meta["source_hash"]):
        yield Origin(Kind.RECORDING, "recording", sha256=meta["source_hash"].hex())
    packages = trace.notes.get("packages")
    for name, version in sorted(packages.items()) if isinstance(packages, dict) else ():
        if name and name not in _NO_PACKAGES:
            yield Origin(Kind.PACKAGE, str(name), str(version))
