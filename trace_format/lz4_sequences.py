# SPDX-License-Identifier: BSD-2-Clause
"""An LZ4 block with fewer sequences: packed for a device's start, not for the fewest bytes.

A sequence costs a device as much as 30 bytes that are copied (docs/adr/0035-short-matches.md), and a match of
seven bytes takes off four at most. Format: lz4_Block_format.md of the LZ4 project, 2022.
"""

from __future__ import annotations

MIN_MATCH = 4
SHORTEST = 8  # bytes: shorter matches become literals, as long as
GROWTH = 50  # a section does not grow by more than such a part of what it holds
_LONG = 15  # a length that does not fit a token has more bytes, up to the first that is not _MORE
_MORE = 255


def without_short_matches(block: bytes, raw: bytes | memoryview) -> bytes:
    """A block for the same bytes, without as many of the short matches as it may lose.

    Args:
        block: a valid LZ4 block, from an encoder of ours.
        raw: what it decodes to.
    """
    for shortest in range(SHORTEST, MIN_MATCH, -1):
        found = _with_matches_from(shortest, block, raw)
        if len(found) - len(block) <= len(raw) // GROWTH:
            return found
    return block


def _with_matches_from(shortest: int, block: bytes, raw: bytes | memoryview) -> bytes:
    found = bytearray()
    begin = end = at = 0  # raw[begin:end] are literals of the sequence to come
    while True:
        token = block[at]
        literals, at = _length(block, at + 1, token >> 4)
        at += literals
        end += literals
        if at == len(block):
            break
        distance = block[at : at + 2]
        match, at = _length(block, at + 2, token & _LONG)
        match += MIN_MATCH
        if match >= shortest:
            _put(found, raw[begin:end], match - MIN_MATCH, distance)
            begin = end + match
        end += match
    _put(found, raw[begin:end], 0, b"")
    return bytes(found)


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that begins in a token and goes on at `at`, and where it ends."""
    if length == _LONG:
        while block[at] == _MORE:
            length += _MORE
            at += 1
        length += block[at]
        at += 1
    return length, at


def _put(found: bytearray, literals: bytes | memoryview, match: int, distance: bytes) -> None:
    """Add a sequence; `match` is its length beyond MIN_MATCH; without a distance, it is the last and has none."""
    found.append(min(len(literals), _LONG) << 4 | min(match, _LONG))
    found += _rest(len(literals))
    found += literals
    if distance:
        found += distance
        found += _rest(match)


def _rest(length: int) -> bytes:
    """What of a length follows its token."""
    if length < _LONG:
        return b""
    more, last = divmod(length - _LONG, _MORE)
    return bytes([_MORE]) * more + bytes([last])
