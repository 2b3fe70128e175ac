# SPDX-License-Identifier: BSD-2-Clause
"""What an attestation's claim "firmware" must be where OP-TEE replays: of its core's ELF file."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from trace_format.errors import GramophoneError

# Of the core's linker script: code before and after the words in it that are written at the start, and constants.
RANGES = (
    ("__text_start", "__text_data_start"),
    ("__text_data_end", "__text_end"),
    ("__rodata_start", "__rodata_end"),
)


def core_measurement(data: bytes, file: str) -> bytes:
    """SHA-256 of code and constants of OP-TEE's core, as its pseudo-TA computes it (gramophone_pta_log.c).

    They are the same wherever the core lies: what it relocates at its start lies elsewhere.

    Args:
        data: tee.elf.
        file: its name, for errors.

    Raises:
        GramophoneError: it is damaged, is not OP-TEE's core with symbols, or an address in these ranges is
            relocated.
    """
    try:
        elf = ELFFile(io.BytesIO(data))
        table = elf.get_section_by_name(".symtab")
        symbols = {}
        if isinstance(table, SymbolTableSection):
            symbols = {row.name: int(row["st_value"]) for row in table.iter_symbols()}
        missing = [name for pair in RANGES for name in pair if name not in symbols]
        if missing:
            raise GramophoneError(f"{file}: expected OP-TEE's core with symbols (tee.elf), found no {missing[0]}")
        ranges = [(symbols[first], symbols[last]) for first, last in RANGES]
        for address in _relocated(elf):
            if any(first <= address < last for first, last in ranges):
                raise GramophoneError(f"{file}: the core relocates {address:#x}, which is measured")
        return hashlib.sha256(b"".join(_read(elf, *pair, file) for pair in ranges)).digest()
    except (ELFError, AttributeError, KeyError, ValueError) as error:
        raise GramophoneError(f"{file}: a damaged ELF file: {error}") from None


def _relocated(elf: ELFFile) -> Iterator[int]:
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section["sh_addr"]:  # others: debugging information's
            yield from (int(row["r_offset"]) for row in section.iter_relocations())


def _read(elf: ELFFile, first: int, last: int, file: str) -> bytes:
    """Bytes of a range of addresses; zeros between its sections, as in memory."""
    for segment in elf.iter_segments():
        at = first - int(segment["p_vaddr"])
        if segment["p_type"] == "PT_LOAD" and at >= 0 and at + last - first <= int(segment["p_filesz"]):
            return bytes(segment.data()[at : at + last - first])
    raise GramophoneError(f"{file}: expected code and constants in one piece each, found none at {first:#x}")
