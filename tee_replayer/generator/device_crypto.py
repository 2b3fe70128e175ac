# SPDX-License-Identifier: BSD-2-Clause
"""The cryptography of a generated folder: the seam, crypto.c, and the libraries' files that it needs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tee_replayer import crypto
from tee_replayer.generator import amalgamate
from tee_replayer.generator.evidence import Evidence
from trace_format.licence import SPDX
from trace_format.schema.trust import KeyKind

HERE = Path(__file__).resolve().parents[1] / "crypto"
_BEFORE = {f"s2n_{curve}.c": (f"s2n_{curve}.h", "s2n_ecdsa.h") for curve in ("p256", "p384")}  # what they include
MACHINE = "arm"  # of s2n-bignum: all devices are AArch64


@dataclass(frozen=True)
class DeviceCrypto:
    """What a device takes of the libraries.

    Attributes:
        evidence: what it says of its replays; a log needs HMAC, an attestation signatures: BearSSL has them.
        has_hash: SHA-256 and what else is hashed with as well; without it the platform has it, and AES.
        encryption: it decrypts traces.
        algorithms: what it verifies besides ES256.
    """

    evidence: Evidence
    has_hash: bool
    algorithms: tuple[KeyKind, ...] = ()
    encryption: bool = False

    @property
    def libraries(self) -> tuple[str, ...]:
        """Names of the libraries that it takes from."""
        return ("BearSSL", "AWS-LC") if self.bearssl else ("AWS-LC",)

    @property
    def bearssl(self) -> tuple[str, ...]:
        """Files of BearSSL that are compiled, in its tree and in the folder's `bearssl`."""
        for_log = (*crypto.HASH, *self.evidence.crypto) if self.evidence.log else ()
        return (*for_log, *(crypto.SHA512 if self._has_sha512 else ()))

    @property
    def aws_lc(self) -> tuple[str, ...]:
        """Files of AWS-LC that are compiled, in the folder's `aws-lc`."""
        return tuple(_place(name).removeprefix("aws-lc/") for name in self._aws_lc)

    @property
    def _aws_lc(self) -> tuple[str, ...]:
        hashing = (crypto.AWS_LC_HASH,) if self.has_hash else ()
        aes = crypto.aes_sources(MACHINE) if self._has_aes else ()
        return (*crypto.s2n_sources(MACHINE, self.algorithms), *hashing, *aes)

    @property
    def _has_sha512(self) -> bool:
        return self.has_hash and bool(crypto.WITH_SHA512 & {*self.algorithms})

    @property
    def _has_aes(self) -> bool:
        return self.encryption and self.has_hash

    def write(self, folder: Path, libraries: crypto.Libraries) -> None:
        """Write crypto.c, and what it needs of the libraries."""
        parts = ["s2n_p256.c", *(crypto.SEAMS[kind][0] for kind in self.algorithms)]
        parts += ["aws_lc_hash.c"] if self.has_hash else []
        parts += ["bearssl_sha512.c"] if self._has_sha512 else []
        parts += ["aws_lc_aes.c"] if self._has_aes else []
        parts += ["bearssl_log.c"] if self.evidence.log else []
        parts = [name for part in parts for name in (*_BEFORE.get(part, ()), part)]
        seam = [f'/* {SPDX} */\n#include "replayer.h"\n', *(amalgamate.part(HERE / name) for name in parts)]
        (folder / "crypto.c").write_text("\n".join(seam), encoding="utf-8")
        for path, target in self._files(libraries):
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / target)

    def _files(self, libraries: crypto.Libraries) -> list[tuple[Path, str]]:
        """(file, its place in the folder)."""
        bearssl, aws_lc = libraries.bearssl, libraries.aws_lc
        assert aws_lc is not None
        names = [crypto.AWS_LC_LICENCE, *self._aws_lc, *crypto.s2n_headers(MACHINE)]
        names += crypto.AWS_LC_ASSEMBLY_HEADERS if self.has_hash else ()
        names += crypto.ML_DSA_INCLUDED if KeyKind.ES256_ML_DSA_44 in self.algorithms else ()
        found = [(aws_lc / name, _place(name)) for name in dict.fromkeys(names)]
        if self.bearssl:
            included = crypto.INCLUDED if self.evidence.attestation else ()
            names = [*crypto.HEADERS, crypto.LICENCE, *self.bearssl, *included]
            names += [str(path.relative_to(bearssl)) for path in (bearssl / "inc").glob("*.h")]
            found += [(bearssl / name, f"bearssl/{name}") for name in dict.fromkeys(names)]
        return found


def _place(name: str) -> str:
    """Of a file of AWS-LC in a generated folder, which has all assembly in one place."""
    for long, short in (
        ("third_party/s2n-bignum/s2n-bignum-imported", "s2n-bignum"),
        ("generated-src/linux-aarch64/crypto/fipsmodule", "sha"),
        ("crypto/fipsmodule/ml_dsa/mldsa", "mldsa"),
    ):
        name = name.replace(long, short)
    return name
