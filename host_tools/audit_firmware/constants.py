# SPDX-License-Identifier: BSD-2-Clause
"""Keys and the allow list in an image's constants."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from struct import pack

from cryptography.hazmat.primitives.asymmetric import ec

from host_tools.audit_firmware.image import Image
from tee_replayer.generator.target import rows
from trace_format.profile import Profile
from trace_format.schema.trust import TRUST_MAGIC

POINT_BYTES, UNCOMPRESSED = 65, 4  # SEC 1, 2.3.3
ROW_BYTES, LIMITS_BYTES = 4, 12  # struct gr_register and gr_limits of tee_replayer/core/internal.h
# SEC 2, 2.4.2: the base point of P-256, which every verifier has.
_GENERATOR_X = 0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296
_PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_FILES = (b"-----BEGIN ", b"ssh-rsa ", b"ecdsa-sha2-", b"ssh-ed25519 ")


@dataclass(frozen=True)
class Place:
    """Something in an image's constants: its address, and what it is."""

    address: int
    what: str
    data: bytes = b""


def points(image: Image) -> list[Place]:
    """All uncompressed points of P-256, but for the curve's base point: public keys."""
    found = []
    for segment in image.segments:
        at = segment.data.find(UNCOMPRESSED)
        while at >= 0:
            point = segment.data[at : at + POINT_BYTES]
            if len(point) == POINT_BYTES and _is_on_curve(point):
                found.append(Place(segment.address + at, "a public key of P-256", point))
            at = segment.data.find(UNCOMPRESSED, at + 1)
    return found


def policies(image: Image, raw: bytes) -> tuple[int, int]:
    """How often a trust policy is there, and how many others are."""
    found = Counter(
        segment.data[at : at + len(raw)] == raw
        for segment in image.segments
        for at in (match.start() for match in re.finditer(re.escape(TRUST_MAGIC), segment.data))
    )
    return found[True], found[False]


def key_files(image: Image) -> list[Place]:
    """Keys in the formats of files."""
    found = []
    for segment in image.segments:
        for mark in _FILES:
            at = segment.data.find(mark)
            while at >= 0:
                text = segment.data[at : at + 32].split(b"\n")[0].decode("ascii", "backslashreplace")
                found.append(Place(segment.address + at, f"a key in a file's form: {text!r}"))
                at = segment.data.find(mark, at + 1)
    return found


def _is_on_curve(point: bytes) -> bool:
    x, y = int.from_bytes(point[1:33], "big"), int.from_bytes(point[33:], "big")
    if x >= _PRIME or y >= _PRIME or x == _GENERATOR_X:
        return False
    if (y * y - (x * x * x - 3 * x + _B)) % _PRIME:
        return False
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return True


def allow_list(profile: Profile) -> tuple[bytes, bytes]:
    """The core's tables for a profile as they lie in memory: registers, limits."""
    table = rows(profile)
    kinds = sorted({limits for *_, limits, _ in table})
    registers = b"".join(
        pack("<HH", index, count | access << 4 | kinds.index(limits) << 6)
        for index, count, access, limits, _ in table
    )
    return registers, b"".join(pack("<III", *kind) for kind in kinds)


@dataclass(frozen=True)
class Table:
    """One of the core's tables in an image.

    Attributes:
        name: "registers" or "limits".
        address: where it is; None: nowhere.
        differs: what in it is not as the profile says, in words; "" when all is.
    """

    name: str
    address: int | None
    differs: str


def tables(image: Image, profile: Profile) -> list[Table]:
    """The allow list of an image against that of a profile."""
    registers, limits = allow_list(profile)
    names = [row[4] for row in rows(profile)]
    found = [
        _table(image, "registers", registers, ROW_BYTES, names),
        _table(image, "limits", limits, LIMITS_BYTES, []),
    ]
    return found


def _table(image: Image, name: str, expected: bytes, row_bytes: int, names: list[str]) -> Table:
    symbol = image.symbol(name)
    if symbol and symbol.size:
        data = image.read(symbol.address, symbol.size)
        return Table(name, symbol.address, _difference(data, expected, row_bytes, names))
    for segment in image.segments:
        at = segment.data.find(expected)
        if at >= 0:
            return Table(name, segment.address + at, "")
    address = _closest(image, expected, row_bytes)
    if address is None:
        return Table(name, None, "expected the profile's rows, found none of them")
    data = image.read(address, len(expected))
    return Table(name, address, _difference(data, expected, row_bytes, names))


def _closest(image: Image, expected: bytes, row_bytes: int) -> int | None:
    """Where most rows of a table are as they should be."""
    best: tuple[int, int | None] = (0, None)
    parts = [expected[at : at + row_bytes] for at in range(0, len(expected), row_bytes)]
    for segment in image.segments:
        for anchor, part in enumerate(parts[: len(parts) // 2 + 1]):
            at = segment.data.find(part)
            while at >= 0:
                start = at - anchor * row_bytes
                data = segment.data[max(start, 0) : start + len(expected)] if start >= 0 else b""
                same = sum(data[i * row_bytes : (i + 1) * row_bytes] == row for i, row in enumerate(parts))
                if same > best[0] and same * 2 > len(parts):
                    best = same, segment.address + start
                at = segment.data.find(part, at + 1)
    return best[1]


def _difference(data: bytes, expected: bytes, row_bytes: int, names: list[str]) -> str:
    """The first row that differs, in words."""
    for number, at in enumerate(range(0, max(len(data), len(expected)), row_bytes)):
        one, other = expected[at : at + row_bytes], data[at : at + row_bytes]
        if one != other:
            name = f" ({names[number]})" if number < len(names) else ""
            right, wrong = (row.hex() or "no more rows" for row in (one, other))
            return f"row {number}{name}: expected {right}, found {wrong}"
    return ""
