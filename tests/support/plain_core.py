# SPDX-License-Identifier: BSD-2-Clause
"""Code as a core without the Armv8 instructions for SHA-256 would run it: emulators have them in every core."""

from __future__ import annotations

READS_FEATURES = 0xD5380600  # mrs x0, id_aa64isar0_el1 (Arm ARM, C6.2.228); bits 0 to 4 are the register
NO_FEATURES = 0xD2800000  # mov x0, #0


def without_features(code: bytes) -> bytes:
    """AArch64 code that finds no features where it asks the core for them.

    Raises:
        AssertionError: it does not ask.
    """
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code) & ~3, 4)]
    asks = [i for i, word in enumerate(words) if word & ~0x1F == READS_FEATURES]
    assert asks, "nothing in the code reads id_aa64isar0_el1"
    changed = bytearray(code)
    for i in asks:
        changed[4 * i : 4 * i + 4] = (NO_FEATURES | words[i] & 0x1F).to_bytes(4, "little")
    return bytes(changed)
