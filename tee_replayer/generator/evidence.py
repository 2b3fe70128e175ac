# SPDX-License-Identifier: BSD-2-Clause
"""What a generated replayer says of its replays: nothing, a log, and attestations on top of it."""

from __future__ import annotations

from dataclasses import dataclass

from tee_replayer import crypto, features
from tee_replayer.generator import amalgamate
from trace_format.emit import GENERATED

HERE = features.HERE / "evidence"
HOOK = b"gr_board_secret("  # that a board's port must have
# Files of BearSSL besides SHA-256.
_FOR_LOG = ("src/mac/hmac.c",)
_FOR_ATTESTATION = (*crypto.CURVE, "src/ec/ecdsa_i31_sign_raw.c", "src/rand/hmac_drbg.c")


@dataclass(frozen=True)
class Evidence:
    """Options of a device.

    Attributes:
        log: it keeps a log.
        hashes: the log has hashes of inputs and outputs.
        attestation: it signs attestations.
    """

    log: bool = False
    hashes: bool = False
    attestation: bool = False

    def __post_init__(self) -> None:
        if (self.hashes or self.attestation) and not self.log:
            raise ValueError("hashes and attestations are of the log")

    @property
    def words(self) -> str:
        """As the notice of a generated file says it; empty: none."""
        chosen = (("log", self.log), ("hashes", self.hashes), ("attestation", self.attestation))
        return ", ".join(name for name, wanted in chosen if wanted)

    @property
    def defines(self) -> str:
        """What all files must see first."""
        names = (
            ("GRAMOPHONE_LOG", self.log),
            ("GRAMOPHONE_LOG_HASHES", self.hashes),
            ("GRAMOPHONE_ATTEST", self.attestation),
        )
        return "".join(f"#define {name}\n" for name, wanted in names if wanted)

    @property
    def header(self) -> str:
        """Declarations for replayer.h."""
        if not self.log:
            return ""
        files = [HERE / "log_crypto.h", GENERATED / "gramophone_log.h", HERE / "tell.h", HERE / "log.h"]
        return "\n".join(map(amalgamate.part, files + ([HERE / "attest.h"] if self.attestation else [])))

    @property
    def source(self) -> str:
        """Functions for replayer.c."""
        if not self.log:
            return ""
        return "\n".join(
            map(amalgamate.part, [HERE / "log.c"] + ([HERE / "attest.c"] if self.attestation else []))
        )

    @property
    def crypto(self) -> tuple[str, ...]:
        """Further files of BearSSL."""
        return (_FOR_LOG if self.log else ()) + (_FOR_ATTESTATION if self.attestation else ())
