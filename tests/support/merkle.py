# SPDX-License-Identifier: BSD-2-Clause
"""A transparency log of a test: a Merkle tree by RFC 6962's definition, and the proofs that such a log gives.

The tree is built by the recursive definitions of section 2.1, not by the check that is tested.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import utils

from signing import curves
from signing.keys import Algorithm
from signing.sign import FileSigner

ORIGIN = "log.example - 1"


def tree(leaves: Sequence[bytes]) -> bytes:
    """MTH of 2.1."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + tree(leaves[:half]) + tree(leaves[half:])).digest()


def path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH of 2.1.1."""
    if len(leaves) == 1:
        return []
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if index < half:
        return [*path(index, leaves[:half]), tree(leaves[half:])]
    return [*path(index - half, leaves[half:]), tree(leaves[:half])]


def note(size: int, root: bytes, signer: FileSigner, *, origin: str = ORIGIN, more: str = "") -> str:
    """A checkpoint that a log signs; `more`: lines of other kinds."""
    text = f"{origin}\n{size}\n{b64(root)}\n{more}"
    signature = signer.sign(text.encode())
    if signer.alg == Algorithm.ES256:
        signature = utils.encode_dss_signature(*curves.scalars(signature))
    return f"{text}\n— log.example {b64(bytes(4) + signature)}\n"


def b64(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


@dataclass(frozen=True)
class Log:
    """A log.

    Attributes:
        bodies: its entries.
        signer: who signs its checkpoints.
    """

    bodies: Sequence[bytes]
    signer: FileSigner

    def entry(self, index: int) -> dict[str, Any]:
        """An entry of Sigstore's bundle."""
        root = tree(self.bodies)
        return {
            "logIndex": str(index + 1000),
            "canonicalizedBody": b64(self.bodies[index]),
            "inclusionProof": {
                "logIndex": str(index),
                "treeSize": str(len(self.bodies)),
                "rootHash": b64(root),
                "hashes": [b64(one) for one in path(index, self.bodies)],
                "checkpoint": {"envelope": note(len(self.bodies), root, self.signer)},
            },
        }

    def answer(self, index: int) -> dict[str, Any]:
        """The same as a Rekor server of the first version answers."""
        root = tree(self.bodies)
        proof = {
            "logIndex": index,
            "treeSize": len(self.bodies),
            "rootHash": root.hex(),
            "hashes": [one.hex() for one in path(index, self.bodies)],
            "checkpoint": note(len(self.bodies), root, self.signer),
        }
        return {"24296fb2": {"body": b64(self.bodies[index]), "verification": {"inclusionProof": proof}}}


def hashedrekord(data: bytes) -> bytes:
    """The body of an entry about a file."""
    digest = {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}
    return body("hashedrekord", "0.0.1", {"data": {"hash": digest}})


def body(kind: str, version: str, spec: object) -> bytes:
    """The body of an entry."""
    return json.dumps({"apiVersion": version, "kind": kind, "spec": spec}).encode()
