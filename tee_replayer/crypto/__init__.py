# SPDX-License-Identifier: BSD-2-Clause
"""The crypto library that replayers link: which files of BearSSL they need."""

from __future__ import annotations

import re
from pathlib import Path

from trace_format.errors import GramophoneError

# ES256 verification and SHA-256; the tables of the other two curves are named by the ECDSA code and
# dropped by the linker.
SOURCES = (
    "src/codec/ccopy.c",
    "src/codec/dec32be.c",
    "src/codec/enc32be.c",
    "src/ec/ec_secp256r1.c",
    "src/ec/ec_secp384r1.c",
    "src/ec/ec_secp521r1.c",
    "src/ec/ecdsa_i31_bits.c",
    "src/ec/ecdsa_i31_vrfy_raw.c",
    "src/hash/sha2small.c",
    "src/int/i31_add.c",
    "src/int/i31_bitlen.c",
    "src/int/i31_decmod.c",
    "src/int/i31_decode.c",
    "src/int/i31_encode.c",
    "src/int/i31_fmont.c",
    "src/int/i31_iszero.c",
    "src/int/i31_modpow.c",
    "src/int/i31_montmul.c",
    "src/int/i31_muladd.c",
    "src/int/i31_ninv31.c",
    "src/int/i31_rshift.c",
    "src/int/i31_sub.c",
    "src/int/i31_tmont.c",
    "src/int/i32_div32.c",
)
INCLUDED = ("src/ec/ec_p256_m31.c",)  # by bearssl.c
LICENCE = "LICENSE.txt"


def version(folder: Path) -> str:
    """Version of the BearSSL source in `folder`, as Debian's changelog gives it; GramophoneError if it is none."""
    changelog = folder / "debian" / "changelog"
    missing = [name for name in (*SOURCES, *INCLUDED, LICENCE, "inc/bearssl.h") if not (folder / name).is_file()]
    if missing:
        raise GramophoneError(f"{folder}: not a BearSSL source tree: expected {missing[0]}, found none")
    match = re.match(r"bearssl \(([^)]+)\)", changelog.read_text(encoding="utf-8") if changelog.is_file() else "")
    return match[1] if match else "of unknown version"
