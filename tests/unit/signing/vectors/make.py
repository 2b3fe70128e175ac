# SPDX-License-Identifier: BSD-2-Clause
"""Makes the golden vectors of signing with pycose, whose authors are not those of what the project signs with.

Run it by hand when the trace format changes: python tests/unit/signing/vectors/make.py

The layout is written here a second time, from docs/FORMAT.md and RFC 9052, without the project's signing code.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[3]))

from ecdsa import NIST256p, SigningKey  # noqa: E402
from ecdsa.curves import Ed25519  # noqa: E402
from pycose.algorithms import EdDSA, Es256  # noqa: E402
from pycose.headers import KID, Algorithm  # noqa: E402
from pycose.keys import EC2Key, OKPKey  # noqa: E402
from pycose.messages import Sign1Message  # noqa: E402

from tests.support.signing_samples import ED25519_SEED, P256_SCALAR, small_trace  # noqa: E402


def signed(trace: bytes, algorithm: type, key: Any, spki: bytes) -> bytes:
    """A signed trace."""
    (head_bytes,) = struct.unpack_from("<I", trace, 24)
    kid = hashlib.sha256(spki).digest()[:16]
    message = Sign1Message(phdr={Algorithm: algorithm, KID: kid}, uhdr={}, payload=None, key=key)
    envelope = message.encode(detached_payload=trace[:head_bytes])
    if algorithm is Es256:
        s = int.from_bytes(envelope[-32:], "big")
        envelope = envelope[:-32] + min(s, NIST256p.order - s).to_bytes(32, "big")
    header = struct.pack("<8sHHIQ8x", b"\x89GSG\r\n\x1a\n", 1, 0, len(envelope), len(trace))
    return header + envelope + bytes(-len(envelope) % 8) + trace


def pem(spki: bytes) -> bytes:
    """SubjectPublicKeyInfo as a PEM file."""
    text = base64.encodebytes(spki).replace(b"\n", b"")
    lines = b"\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return b"-----BEGIN PUBLIC KEY-----\n" + lines + b"\n-----END PUBLIC KEY-----\n"


def main() -> None:
    """Write trace, signed traces and public keys."""
    trace = small_trace(9000)
    p256 = SigningKey.from_secret_exponent(P256_SCALAR, curve=NIST256p)
    point = p256.verifying_key.to_string()
    p256_key = EC2Key(crv="P_256", x=point[:32], y=point[32:], d=p256.to_string())
    ed = SigningKey.from_string(ED25519_SEED, curve=Ed25519)
    ed_key = OKPKey(crv="ED25519", x=bytes(ed.verifying_key.to_string()), d=ED25519_SEED)
    (HERE / "trace.gtr").write_bytes(trace)
    for name, algorithm, key, spki in (
        ("es256", Es256, p256_key, p256.verifying_key.to_der()),
        ("eddsa", EdDSA, ed_key, ed.verifying_key.to_der()),
    ):
        (HERE / f"{name}.sgtr").write_bytes(signed(trace, algorithm, key, spki))
        (HERE / f"{name}.pub.pem").write_bytes(pem(spki))


if __name__ == "__main__":
    main()
