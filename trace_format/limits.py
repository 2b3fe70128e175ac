# SPDX-License-Identifier: BSD-2-Clause
"""How much the host takes of a file, and of what a file claims to hold, before it takes memory for it.

The format itself allows more, and a device has a limit of its own, its carve-out. Which networks these numbers
leave room for, and what they cost in memory: docs/adr/0045-limits-before-memory.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_format.errors import LimitError

MIB = 1 << 20
FILE_BYTES = 1024 * MIB  # a trace, a tensor, firmware, an image
MODEL_BYTES = 2048 * MIB  # a network as a framework keeps it: as much as a protobuf message can have
TEXT_BYTES = 512 * MIB  # a trace as text
LOG_BYTES = 256 * MIB  # a replay log: more than a million entries
SMALL_BYTES = 1 * MIB  # a key, a policy, a description, an attestation
PRINTED_BYTES = 16 * MIB  # what a program in a sandbox prints
PASSPHRASE_BYTES = 4096
KEY_PARTS = 6  # of a key in TOML, with dots between
OPERATORS = 10_000  # of a network: three times those of a language model with 24 layers
READ_S = 300  # for a library to read a network
PIPE_S = 60  # for the program that gives a passphrase
DECODED_BYTES = 1024 * MIB  # all sections of a trace
DECODED_OF_ANY_BYTES = 256 * MIB  # of them, whatever the file's size
DECODED_RATIO = 64  # decoded bytes for each of the file's, beyond that; LZ4 alone could make it 255
NOTES_BYTES = 64 * MIB  # JSON takes up to 25 times its size
ACTIONS = 2 * MIB
PAGES = 2 * MIB  # that actions map, and that slots span: 8 GiB, twice the largest carve-out


def decoded_bytes(file_bytes: int) -> int:
    """Most that the content of a file of this size may have, in bytes."""
    return min(DECODED_BYTES, max(DECODED_OF_ANY_BYTES, DECODED_RATIO * file_bytes))


def check(what: str, found: int, most: int, *, offset: int | None = None, file: str = "") -> None:
    """Raise LimitError if there is more than the host takes.

    Args:
        what: what there is too much of, with its unit.
        offset: where in the file that is claimed, None where it is no single place.
        file: its name; left out where the caller's caller adds it.
    """
    if found > most:
        raise LimitError(what, offset=offset, expected=f"at most {most}", found=found, file=file)


def check_pages(mapped: int, spans: Iterable[int], page_bytes: int) -> None:
    """Raise LimitError if a trace maps, or its slots span, more pages than the host keeps account of.

    Args:
        mapped: pages that all its actions map together.
        spans: bytes between the begin and the end of each slot.
        page_bytes: size of a page.
    """
    check("pages that the actions map", mapped, PAGES)
    check("pages that the slots span", sum(-(-span // page_bytes) + 1 for span in spans), PAGES)
