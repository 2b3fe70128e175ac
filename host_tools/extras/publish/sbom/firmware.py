# SPDX-License-Identifier: BSD-2-Clause
"""The bill of materials of a generated folder: sources, crypto libraries, the compiler, and what was compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from struct import error as StructError

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.component import Component, ComponentType
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from host_tools.extras.publish.sbom.document import (
    CRYPTO,
    Bill,
    compiler,
    crypto_library,
    files,
    properties,
    sha256,
)
from host_tools.runners.firmware import BINARY
from host_tools.support.version import VERSION
from trace_format.errors import GramophoneError
from trace_format.files import open_regular, read_file_text

# In the head of replayer.h, after the licence: tee_replayer/generator/generate.py writes it.
_SUBJECT = re.compile(r"^ \* Gramophone replayer for (.+) on ([\w-]+); generated", re.MULTILINE)
_FACT = re.compile(r"^ \*   (\S+(?: \S+)*)  +(\S.*)$", re.MULTILINE)


def bill(folder: Path) -> Bill:
    """What a generated folder is made of.

    Raises:
        GramophoneError: `gramophone generate` did not write it, or one of its object files is none.
        OSError: a file cannot be read.
    """
    header = folder / "replayer.h"
    head = read_file_text(header).partition("*/\n/*\n * The replayer")[0]
    found = _SUBJECT.search(head)
    if found is None:
        raise GramophoneError(f"{header}: expected a head that 'gramophone generate' writes, found none")
    facts = dict(_FACT.findall(head))
    binary = folder / BINARY
    subject = Component(
        name=f"gramophone-replayer-{found[2]}",
        version=VERSION,
        type=ComponentType.FIRMWARE,
        description=f"Gramophone replayer for {found[1]} on {found[2]}",
        bom_ref="firmware",
        licenses=[LicenseFactory().make_from_string("BSD-2-Clause")],
        hashes=[sha256(binary)] if binary.is_file() else [],
        properties=properties({name.replace(" ", "_").lower(): value for name, value in facts.items()}),
    )
    listed = files(folder)
    named = [row.partition(" ") for row in facts.get("crypto", "").split(", ")]  # BearSSL VERSION, AWS-LC VERSION
    versions = {name.lower(): version for name, _, version in named if name.lower() in CRYPTO}
    linked = {name: [part for part in listed if part.name.startswith(f"{name}/")] for name in versions}
    own = [part for part in listed if not any(part in parts for parts in linked.values())]
    library = [crypto_library(name, version, linked[name]) for name, version in versions.items()]
    compilers = [compiler(line) for line in sorted(set(_compilers(folder)))]
    return Bill(subject, [*own, *library, *compilers])


def _compilers(folder: Path) -> Iterator[str]:
    """What the compilers of all object files left in them (section .comment; the linker drops it)."""
    for path in sorted(path for path in folder.rglob("*.o") if path.is_file()):
        try:
            with open_regular(path) as stream:
                section = ELFFile(stream).get_section_by_name(".comment")
                lines = section.data().split(b"\0") if section else []
        except (ELFError, ValueError, MemoryError, StructError) as error:  # sizes and offsets that lead nowhere
            raise GramophoneError(f"{path}: not an object file ({error})") from None
        yield from (line.decode("ascii", "backslashreplace") for line in lines if line)
