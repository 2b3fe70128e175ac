# SPDX-License-Identifier: BSD-2-Clause
"""What the pseudo-TA costs OP-TEE's core."""

from __future__ import annotations

from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_RELOC_TYPE_AARCH64
from elftools.elf.relocation import RelocationSection

from host_tools.runners.optee.build import PTA_OBJECT, core_of

RELOCATION_BYTES = 4


def added_bytes(pta: Path) -> int:
    """Bytes that the pseudo-TA adds to the core's binary.

    Code, constants and initialised data, and 4 bytes for each address that the core relocates when it starts
    (scripts/gen_tee_bin.py there). Unwind tables are not among them: the core's linker script drops them.
    """
    with (core_of(pta) / PTA_OBJECT).open("rb") as stream:
        elf = ELFFile(stream)
        kept = [
            section
            for section in elf.iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC
            and section["sh_type"] != "SHT_NOBITS"
            and section.name != ".eh_frame"
        ]
        addresses: int = sum(
            relocation["r_info_type"] == ENUM_RELOC_TYPE_AARCH64["R_AARCH64_ABS64"]
            for section in kept
            if isinstance(table := elf.get_section_by_name(f".rela{section.name}"), RelocationSection)
            for relocation in table.iter_relocations()
        )
        return int(sum(section["sh_size"] for section in kept)) + RELOCATION_BYTES * addresses
