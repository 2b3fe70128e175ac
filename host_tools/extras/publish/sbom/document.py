# SPDX-License-Identifier: BSD-2-Clause
"""What all bills of materials share: files with their hashes, and the document itself.

Facts: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/; the library checks nothing, the tests validate.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from host_tools.support.version import VERSION
from trace_format.errors import GramophoneError
from trace_format.files import open_regular

MADE_LATER = {".o", ".d", ".pyc"}  # by compilers, of the sources; not listed
_VERSION = re.compile(r"\d+(\.\d+)+\S*")


@dataclass
class Bill:
    """What a thing is made of.

    Attributes:
        subject: the thing.
        components: its parts.
        needs: part -> parts that it depends on, where that is known; the subject depends on all.
        card: of a model, as CycloneDX has it; the library has no objects for it.
    """

    subject: Component
    components: list[Component] = field(default_factory=list)
    needs: Mapping[Component, Iterable[Component]] = field(default_factory=dict)
    card: dict[str, Any] | None = None


def encode(bill: Bill) -> bytes:
    """The bill as JSON; the same bill at the same time gives the same bytes.

    The time is now, or $SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/).

    Raises:
        GramophoneError: $SOURCE_DATE_EPOCH is not a time.
    """
    tool = Component(name="gramophone", version=VERSION, type=ComponentType.APPLICATION, bom_ref="tool")
    metadata = BomMetaData(component=bill.subject, timestamp=_time())
    metadata.tools.components.add(tool)
    bom = Bom(components=bill.components, metadata=metadata, serial_number=UUID(int=0))
    bom.register_dependency(bill.subject, bill.components)
    for component, needed in bill.needs.items():
        bom.register_dependency(component, needed)
    digest = hashlib.sha256(_text(bom, bill.card).encode()).hexdigest()
    bom.serial_number = uuid5(NAMESPACE_URL, digest)
    return _text(bom, bill.card).encode()


def _text(bom: Bom, card: Mapping[str, Any] | None) -> str:
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if card is not None:
        document = json.loads(text)
        document["metadata"]["component"]["modelCard"] = card
        text = json.dumps(document, indent=2)
    return text + "\n"


def _time() -> datetime:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(given), UTC)
    except (ValueError, OverflowError, OSError):
        raise GramophoneError(f"SOURCE_DATE_EPOCH: expected seconds since 1970, found {given!r}") from None


def file(path: Path, name: str, prefix: str = "") -> Component:
    """A file with the SHA-256 of its contents.

    Args:
        path: the file.
        name: as it is listed.
        prefix: makes the reference unique where two parts have files of one name.
    """
    return Component(name=name, type=ComponentType.FILE, bom_ref=f"file:{prefix}{name}", hashes=[sha256(path)])


def files(folder: Path, prefix: str = "", *, links: bool = False) -> list[Component]:
    """All files of a folder, but what a compiler made of them.

    Args:
        folder: the folder.
        prefix: as for `file`.
        links: whether a link to a file is taken for one, as in our own packages in a checkout.

    Raises:
        GramophoneError: there is something else, such as a link, whose contents may be others tomorrow.
    """
    return [file(path, path.relative_to(folder).as_posix(), prefix) for path in _sources(folder, links)]


def _sources(folder: Path, links: bool) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        linked = entry.is_symlink() and not (links and entry.is_file())
        if linked or not (entry.is_dir() or entry.is_file()):
            raise GramophoneError(f"{entry}: expected a file or a folder, found something else")
        if entry.is_file() and entry.suffix not in MADE_LATER:
            yield entry
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry, links)


def sha256(path: Path) -> HashType:
    """Hash of a file."""
    with open_regular(path) as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def properties(values: Mapping[str, str]) -> list[Property]:
    """Facts that CycloneDX has no field for, under our own prefix."""
    return [Property(name=f"gramophone:{name}", value=value) for name, value in values.items()]


def compiler(line: str) -> Component:
    """A compiler, which is no part of what it makes.

    Args:
        line: what it says of itself, for example "GCC: (Debian 12.2.0-14) 12.2.0".
    """
    versions = [found[0] for found in _VERSION.finditer(line)]
    return Component(
        name=line.partition(":")[0].strip().lower() if ":" in line else "clang" if "clang" in line else line,
        version=versions[-1].rstrip(")") if versions else None,
        type=ComponentType.APPLICATION,
        description=line,
        bom_ref=f"compiler:{line}",
        scope=ComponentScope.EXCLUDED,
    )


# Crypto libraries that replayers link: Debian's source package, and the licence of the files that are taken.
CRYPTO = {"bearssl": ("bearssl", "MIT"), "aws-lc": ("rust-aws-lc-sys", "Apache-2.0 OR ISC OR MIT-0")}


def crypto_library(name: str, version: str, parts: Iterable[Component] = ()) -> Component:
    """One of CRYPTO, of Debian's version."""
    package, licence = CRYPTO[name]
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("deb", "debian", package, version, {"arch": "source"}),
        licenses=[LicenseFactory().make_from_string(licence)],
        components=parts,
    )
