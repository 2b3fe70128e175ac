# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of ML-DSA-44 verifications with the right verdict, of Wycheproof: those without a context."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.wycheproof import Case as Case
from tests.support.wycheproof import rows, title

KEY_BYTES, SIGNATURE_BYTES = 1312, 2420  # FIPS 204, table 2


def wycheproof() -> Iterator[Case]:
    """mldsa_44_verify; keys and signatures of other sizes do not reach the device's code."""
    for group, row in rows("mldsa_44_verify_test.json"):
        if row.get("ctx"):
            continue
        key, message, signature = (bytes.fromhex(text) for text in (group["publicKey"], row["msg"], row["sig"]))
        good = {"valid": True, "invalid": False}[row["result"]]
        if (len(key), len(signature)) == (KEY_BYTES, SIGNATURE_BYTES):
            yield Case(title(row), message, key, signature, good)
        else:
            assert not good
