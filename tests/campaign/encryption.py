# SPDX-License-Identifier: BSD-2-Clause
"""What the campaign attacks of a firmware that reads encrypted traces: traces that are not for it."""

from __future__ import annotations

from pathlib import Path

from signing import encryption
from signing.device_keys import SECRET_BYTES
from tests.campaign import cases
from tests.campaign.cases import Attempt, Case
from tests.support import encryption_samples as e
from tests.support.replayer_samples import signed
from tests.support.trace_samples import offset_of
from trace_format import layout
from trace_format.schema import SectionType

FLEET_KEY = e.FLEET_BYTES


def describe(signed: bytes, folder: Path) -> list[tuple[str, int, int, object]]:
    """Rows of a machine's description: what the board keeps; two keys and some of the plaintext, which are secret.

    Args:
        signed: the file; one that is not encrypted has no secret.
        folder: for files.
    """
    rows: list[tuple[str, int, int, object]] = []
    plain = cases.IMAGE[:SECRET_BYTES]
    secrets = (e.SECRET, e.FLEET_BYTES, *(() if plain in signed else (plain,)))
    for name, files in (("kept", (e.SECRET,)), ("secret", secrets)):
        for index, data in enumerate(files):
            (folder / f"{name}{index}").write_bytes(data)
            rows.append((name, index, len(data), folder / f"{name}{index}"))
    return rows


def encrypted(gpu: str) -> bytes:
    return encryption.encrypt(cases.sample(gpu).build(compress=False), [e.public(e.FLEET)])


def good(gpu: str) -> Attempt:
    return Attempt(signed(encrypted(gpu)))


def for_a_stranger(gpu: str) -> Attempt:
    plain = cases.sample(gpu).build(compress=False)
    return Attempt(signed(encryption.encrypt(plain, [e.public(e.STRANGER)])))


def under_another_head(gpu: str) -> Attempt:
    """One owner's body under another owner's head, which the device's key has signed: of another recording."""
    data = bytearray(encrypted(gpu))
    at = layout.disassemble(bytes(data))[1].one(SectionType.MANIFEST).offset
    data[at + offset_of("manifest", "source_hash")] ^= 1
    return Attempt(signed(bytes(data)))


def turned(gpu: str) -> Attempt:
    """Bits of the ciphertext, which are bits of the plaintext, after signing."""
    data = bytearray(signed(encrypted(gpu)))
    for at in (-1, -9, -17):
        data[at] ^= 0x10
    return Attempt(bytes(data))


CASES = (
    Case("for-a-stranger", "encrypted for another device", "ENCRYPTED", for_a_stranger, good),
    Case("another-head", "another's encrypted body", "ENCRYPTED", under_another_head, good),
    Case("turned-bits", "bits of the ciphertext turned", "CHUNK", turned, good),
)
