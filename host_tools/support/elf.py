# SPDX-License-Identifier: BSD-2-Clause
"""How an ELF file is told from others; pyelftools reads it."""

ELF_MAGIC = b"\x7fELF"


def is_elf(data: bytes) -> bool:
    """Whether a file's first bytes are those of an ELF file."""
    return data.startswith(ELF_MAGIC)
