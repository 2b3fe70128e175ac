# SPDX-License-Identifier: BSD-2-Clause
"""Byte planes by hand: a section that is good, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Sequence

RUN_OF_32 = 15  # nibble for so many values that do not occur


def plane(codes: bytes, nibbles: Sequence[int], size: int | None = None) -> bytes:
    """A coded plane.

    Args:
        codes: as they are stored.
        nibbles: lengths of codes and runs, an even number of them.
        size: how many bytes of codes it says there are; None: as many as there are.
    """
    pairs = bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))
    return (len(codes) if size is None else size).to_bytes(4, "little") + pairs + codes


def stored(values: bytes) -> bytes:
    """A plane that is not coded."""
    return bytes(4) + values


# The code of RFC 1951, section 3.2.2: lengths 3, 3, 3, 3, 3, 2, 4 and 4 for A to H are these codes.
RFC_1951 = dict(zip("ABCDEFGH", ("010", "011", "100", "101", "110", "00", "1110", "1111"), strict=True))
# Nibbles for 65 values that do not occur, the lengths, and 183 that do not occur; and what fills the last byte.
NIBBLES = (15, 15, 0, 3, 3, 3, 3, 3, 2, 4, 4, 15, 15, 15, 15, 15, 14, 12, 11, 0)
LETTERS = b"ABCDEFGH"
CODES = bytes.fromhex("4e5c7780")  # 010 011 100 101 110 00 1110 1111, and seven zeros
PLANE = stored(b"abcdefgh")
CODED = plane(CODES, NIBBLES)
GOOD = CODED + 7 * PLANE
RAW = b"".join(bytes((letter, *[b"abcdefgh"[index]] * 7)) for index, letter in enumerate(LETTERS))

_ONE = (1, 1, *[15] * 7, 14, 13, 12, 11)  # codes of a bit for 0 and 1; an odd number of nibbles
# What it is: the section's bytes, and how many bytes it should decode to.
MALFORMED: dict[str, tuple[bytes, int]] = {
    "no bytes": (b"", 64),
    "a plane's size that is cut": (GOOD[:2], 64),
    "lengths that are cut": (CODED[:8], 64),
    "codes that are cut": (CODED[:-1], 64),
    "a stored plane that is cut": (GOOD[:-1], 64),
    "a plane that is missing": (CODED + 6 * PLANE, 64),
    "a byte after the last plane": (GOOD + b"\0", 64),
    "another plane after the last": (GOOD + PLANE, 64),
    "lengths of no value": (plane(CODES, [RUN_OF_32] * 8) + 7 * PLANE, 64),
    "a code of a bit and no other": (plane(b"\0", (1, *_ONE[2:], 0, 0)) + 7 * PLANE, 64),
    "too few codes": (plane(CODES, (15, 15, 0, 3, 3, 3, 3, 3, 3, 4, 4, *NIBBLES[11:])) + 7 * PLANE, 64),
    "too many codes": (plane(CODES, (15, 15, 0, 3, 3, 3, 3, 3, 2, 4, 3, *NIBBLES[11:])) + 7 * PLANE, 64),
    "three codes of a bit": (plane(b"\0", (1, 1, 1, *_ONE[2:-1], 0)) + 7 * PLANE, 64),
    "lengths of more than 256 values": (plane(CODES, (*NIBBLES[:-1], 11)) + 7 * PLANE, 64),
    "a run beyond 256 values": (plane(b"\0", (1, 1, *[RUN_OF_32] * 8)) + 7 * PLANE, 64),
    "a nibble after the last length": (plane(b"\0", (*_ONE, 5)) + 7 * PLANE, 64),
    "a byte of codes too many": (plane(CODES + b"\0", NIBBLES) + 7 * PLANE, 64),
    "a code that is cut": (plane(CODES[:-1], NIBBLES) + 7 * PLANE, 64),
    "codes of a value too few": (plane(CODES[:-2], NIBBLES) + 7 * PLANE, 64),
    "a bit after the last code": (plane(CODES[:-1] + b"\x81", NIBBLES) + 7 * PLANE, 64),
    "a size of 4 GiB": (plane(CODES, NIBBLES, 0xFFFFFFFF) + 7 * PLANE, 64),
    "codes of a plane without values": (7 * stored(b"a") + plane(b"\0", (*_ONE, 0)), 7),
    "fewer bytes than it should decode to": (GOOD, 1 << 14),
    "more bytes than it should decode to": (GOOD, 56),
}
