# SPDX-License-Identifier: BSD-2-Clause
"""Byte planes: the codec of sections that hold numbers and machine code, whose bytes are alike in the same places.

Of a float's four bytes, that with sign and exponent takes few values, while the others hardly repeat. A section is
split into its bytes 0, 8, 16 ..., then 1, 9, 17 ..., and so on. Each of these planes is stored, or Huffman coded
(Proc. IRE 40, 1952) with a canonical code, which its lengths say completely. Lengths are limited, so that a device
decodes by one small table. docs/FORMAT.md has the layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_format.schema import MAX_CODE_BITS, PLANE_SIZE_BYTES, PLANES

Bytes = NDArray[np.uint8]
Buffer = bytes | memoryview
_MAX_RUN_BITS = 15 - MAX_CODE_BITS  # a nibble greater than a length is a run of values that do not occur
_STEP = 1 << 16  # bytes of codes, or values, at once: bounds the memory that is taken
_STRIDE = 32  # codes, a power of two
# Of three bytes, what the next bits are from each bit of the first.
_SHIFTS = np.arange(24 - MAX_CODE_BITS, 16 - MAX_CODE_BITS, -1, dtype=np.uint32)


class PlanesError(ValueError):
    """Data that are no planes of a section of the size that it should have."""


def encode(raw: Buffer) -> bytes:
    """The section's planes, each coded or not, whichever is smaller."""
    return b"".join(_encoded(np.frombuffer(raw, np.uint8)[at::PLANES]) for at in range(PLANES))


def decode(stored: Buffer, raw_bytes: int) -> bytes:
    """The section's bytes, `raw_bytes` of them.

    Raises:
        PlanesError: they are damaged, or of another size.
        MemoryError: there is no memory for `raw_bytes`.
    """
    if raw_bytes > 8 * len(stored):  # a code has a bit
        raise PlanesError(f"expected enough for {raw_bytes} bytes, found {len(stored)}")
    out = np.empty(raw_bytes, np.uint8)
    rest = np.frombuffer(stored, np.uint8)
    for at in range(PLANES):
        try:
            rest = _decode(rest, out[at::PLANES])
        except PlanesError as error:
            raise PlanesError(f"plane {at}: {error}") from None
    if len(rest):
        raise PlanesError(f"expected nothing after the planes, found {len(rest)} bytes")
    return out.tobytes()


def code_lengths(counts: NDArray[Any]) -> Bytes:
    """Lengths of the best code of at most MAX_CODE_BITS bits, by package-merge (Larmore, Hirschberg, JACM 1990).

    Args:
        counts: shape (256,), how often each value occurs; not all zero.

    Returns:
        Shape (256,), bits; 0 where a value does not occur. Where one value is all, a second one gets a code, so
        that every sequence of bits is one of codes.
    """
    used = np.flatnonzero(counts)
    if len(used) == 1:
        used = np.array([used[0], used[0] ^ 1])
    single = sorted((max(int(counts[value]), 1), (int(value),)) for value in used)
    row: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(MAX_CODE_BITS):
        packages = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(row[::2], row[1::2], strict=False)]
        row = sorted(single + packages)
    values = [value for _, package in row[: 2 * len(used) - 2] for value in package]
    return np.bincount(values, minlength=256).astype(np.uint8)


def described(lengths: Bytes) -> bytes:
    """Lengths as a coded plane has them: a nibble each, or a nibble for a run of values that do not occur."""
    nibbles: list[int] = []
    at = 0
    while at < 256:
        run = int(np.argmax(np.append(lengths[at:] > 0, True)))
        if run < 2:
            nibbles.append(int(lengths[at]))
            at += 1
        else:
            bits = min(run.bit_length() - 1, _MAX_RUN_BITS)
            nibbles.append(MAX_CODE_BITS + bits)
            at += 1 << bits
    nibbles += [0] * (len(nibbles) % 2)
    return bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))


def _encoded(plane: Bytes) -> bytes:
    stored = bytes(PLANE_SIZE_BYTES) + plane.tobytes()
    if not len(plane):
        return stored
    counts = np.bincount(plane, minlength=256)
    lengths = code_lengths(counts)
    size = -(-int(counts @ lengths) // 8)
    start = size.to_bytes(PLANE_SIZE_BYTES, "little") + described(lengths)
    if len(start) + size >= len(stored):
        return stored
    codes = _codes(lengths)
    pieces = []
    for at in range(0, len(plane), _STEP):
        values = plane[at : at + _STEP]
        each = lengths[values]
        end = np.cumsum(each, dtype=np.int64)
        place = np.repeat(end, each) - np.arange(1, end[-1] + 1)  # of each bit, in its code
        pieces.append((np.repeat(codes[values], each) >> place.astype(np.uint16) & 1).astype(np.uint8))
    return start + np.packbits(np.concatenate(pieces)).tobytes()


def _codes(lengths: Bytes) -> NDArray[np.uint16]:
    """The canonical code: shape (256,). Shorter codes come first, and of one length those of smaller values."""
    codes = np.zeros(256, np.uint16)
    code = 0
    for length in range(1, MAX_CODE_BITS + 1):
        values = np.flatnonzero(lengths == length)
        codes[values] = code + np.arange(len(values))
        code = (code + len(values)) << 1
    return codes


def _decode(stored: Bytes, plane: Bytes) -> Bytes:
    """Fill a plane; what follows it in the section."""
    if len(stored) < PLANE_SIZE_BYTES:
        raise PlanesError(f"expected its size, {PLANE_SIZE_BYTES} bytes, found {len(stored)}")
    size = int.from_bytes(stored[:PLANE_SIZE_BYTES].tobytes(), "little")
    stored = stored[PLANE_SIZE_BYTES:]
    if size == 0:
        if len(stored) < len(plane):
            raise PlanesError(f"expected {len(plane)} bytes, found {len(stored)}")
        plane[:] = stored[: len(plane)]
        return stored[len(plane) :]
    lengths, stored = _lengths(stored)
    if len(stored) < size:
        raise PlanesError(f"expected {size} bytes of codes, found {len(stored)}")
    whole = 1 << MAX_CODE_BITS
    share = (whole >> lengths.astype(np.int64)) * (lengths > 0)
    if share.sum() != whole:
        raise PlanesError(f"expected codes for {whole} of {whole} sequences of bits, found {share.sum()}")
    order = np.argsort(lengths, kind="stable")
    values = np.repeat(order.astype(np.uint8), share[order])
    _decode_codes(stored[:size], plane, values, lengths[values])
    return stored[size:]


def _lengths(stored: Bytes) -> tuple[Bytes, Bytes]:
    """What `described` says, and what follows it."""
    lengths = np.zeros(256, np.uint8)
    at = 0
    for index, byte in enumerate(stored.tolist()):
        for nibble in (byte & 15, byte >> 4):
            if at == 256 and nibble:
                raise PlanesError(f"lengths of codes: expected 0 after the last, found {nibble}")
            if at < 256:
                lengths[at] = nibble if nibble <= MAX_CODE_BITS else 0
                at += 1 if nibble <= MAX_CODE_BITS else 1 << (nibble - MAX_CODE_BITS)
            if at > 256:
                raise PlanesError(f"lengths of codes: expected 256, found {at}")
        if at == 256:
            return lengths, stored[index + 1 :]
    raise PlanesError(f"lengths of codes: expected 256, found {at}")


def _decode_codes(stored: Bytes, plane: Bytes, values: Bytes, lengths: Bytes) -> None:
    """Decode a plane, by tables of what each sequence of MAX_CODE_BITS bits begins with.

    For every bit it is computed where a code that begins there ends, and from that where the one _STRIDE codes
    later begins: then only one of _STRIDE has to be followed one by one.
    """
    done, start = 0, 0  # codes; the bit where the next one begins
    padded = np.concatenate((stored, np.zeros(2, np.uint8))).astype(np.uint32)
    while done < len(plane):
        first = start // 8
        if first >= len(stored):
            raise PlanesError(f"expected {len(plane)} codes, found {done}")
        piece = padded[first : first + _STEP + 2]
        words = piece[:-2] << 16 | piece[1:-1] << 8 | piece[2:]
        ahead = (words[:, None] >> _SHIFTS & (1 << MAX_CODE_BITS) - 1).reshape(-1)
        end = len(ahead)
        after = np.append(np.minimum(np.arange(end) + lengths[ahead], end), end)
        far = after
        for _ in range(_STRIDE.bit_length() - 1):
            far = far[far]
        places = [start - 8 * first]
        while places[-1] < end:
            places.append(int(far[places[-1]]))
        columns = [np.array(places)]
        for _ in range(_STRIDE - 1):
            columns.append(after[columns[-1]])
        begins = np.column_stack(columns).reshape(-1)
        begins = begins[begins < end][: len(plane) - done]
        plane[done : done + len(begins)] = values[ahead[begins]]
        done += len(begins)
        start = 8 * first + int(begins[-1]) + int(lengths[ahead[begins[-1]]])
    left = 8 * len(stored) - start
    if not 0 <= left < 8 or int(stored[-1]) & (1 << left) - 1:
        raise PlanesError(f"expected {len(stored)} bytes of codes, the last filled with zeros, found {start} bits")
