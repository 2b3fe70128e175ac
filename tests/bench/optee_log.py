# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: what a replay log and attestations add to OP-TEE's core: `python -m tests.bench.optee_log`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from host_tools.runners import libraries
from host_tools.runners.optee.build import CORE_ELF, core_of
from tee_replayer.generator.boards import OPTEE
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.bench.evidence import CHOICES
from tests.support.optee_size import RELOCATION_BYTES
from tests.support.signing_samples import ES256


def sizes(core: Path) -> tuple[int, int]:
    """Bytes of a core's binary, and of the memory that it clears at its start."""
    with (core / CORE_ELF).open("rb") as stream:
        binary = cleared = 0
        for section in ELFFile(stream).iter_sections():
            if isinstance(section, RelocationSection) and section["sh_addr"]:
                binary += RELOCATION_BYTES * section.num_relocations()
            elif section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section.name in (
                ".text",
                ".rodata",
                ".data",
                ".got",
            ):
                binary += section["sh_size"]
            elif section.name == ".bss":
                cleared = section["sh_size"]
        return binary, cleared


def main() -> None:
    """Print a row for each kind of evidence."""
    first: tuple[int, int] | None = None
    for name, evidence in CHOICES.items():
        with tempfile.TemporaryDirectory() as folder:
            pta = generate(
                Options("v3d42", platform_of(OPTEE), ES256.public, libraries.source(), evidence=evidence),
                Path(folder) / "pta",
            )
            found = sizes(core_of(pta))
        first = first or found
        print(f"{name:26} {found[0] - first[0]:+7,} bytes of binary, {found[1] - first[1]:+7,} of cleared memory")


if __name__ == "__main__":
    main()
