# SPDX-License-Identifier: BSD-2-Clause
"""The crypto libraries that replayers link: which files of BearSSL and of AWS-LC are needed for what, and the
seams between them and the core's crypto.h, in C.

Not in here: the libraries' sources, which are fetched and compared with hashes.py, and the host's cryptography
(`signing`).

Read first: s2n_ecdsa.h
"""

from __future__ import annotations

import platform
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tee_replayer.crypto import hashes
from trace_format.errors import GramophoneError
from trace_format.files import read_file_text
from trace_format.schema.trust import KeyKind

# Files of BearSSL. SHA-256, of host builds and of the replay log:
HASH = ("src/codec/dec32be.c", "src/codec/enc32be.c", "src/hash/sha2small.c")
# SHA-384 and SHA-512, of ES384 and Ed25519:
SHA512 = ("src/codec/dec64be.c", "src/codec/enc64be.c", "src/hash/sha2big.c")
# P-256, and what ECDSA does with numbers; the tables of the other two curves are named by the ECDSA code and
# dropped by the linker. Firmware takes it to sign; host builds where s2n-bignum has nothing for the machine.
CURVE = (
    "src/codec/ccopy.c",
    "src/ec/ec_secp256r1.c",
    "src/ec/ec_secp384r1.c",
    "src/ec/ec_secp521r1.c",
    "src/ec/ecdsa_i31_bits.c",
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
INCLUDED = ("src/ec/ec_p256_m31.c",)  # by bearssl_p256.c and bearssl_log.c
VERIFICATION = ("src/ec/ecdsa_i31_vrfy_raw.c",)
HEADERS = ("inc/bearssl.h", "src/config.h", "src/inner.h")  # and all others beside the first
LICENCE = "LICENSE.txt"

# Files of AWS-LC, as Debian's source of the Rust package has it. s2n-bignum is in it, with one folder a machine.
_S2N = "aws-lc/third_party/s2n-bignum/s2n-bignum-imported"
_S2N_MACHINES = {"aarch64": "arm", "arm64": "arm", "x86_64": "x86_att"}
_S2N_FUNCTIONS = (
    "generic/bignum_modinv.S",
    "generic/bignum_mul.S",
    "p256/bignum_add_p256.S",
    "p256/bignum_montmul_p256_alt.S",
    "p256/bignum_sub_p256.S",
)
_S2N_REDUCTION = {"arm": "p256/bignum_mod_n256.S", "x86_att": "p256/bignum_mod_n256_alt.S"}
_S2N_HEADERS = {"arm": "_internal_s2n_bignum_arm.h", "x86_att": "_internal_s2n_bignum_x86_att.h"}
# P-384, and the order's numbers.
_S2N_P384 = (
    "p384/bignum_add_p384.S",
    "p384/bignum_montmul_p384_alt.S",
    "p384/bignum_sub_p384.S",
)
_S2N_REDUCTION_384 = {"arm": "p384/bignum_mod_n384.S", "x86_att": "p384/bignum_mod_n384_alt.S"}
# Ed25519's field, points and order.
_S2N_25519 = (
    "curve25519/bignum_add_p25519.S",
    "curve25519/bignum_mod_n25519.S",
    "curve25519/bignum_mul_p25519_alt.S",
    "curve25519/bignum_sub_p25519.S",
    "curve25519/edwards25519_decode_alt.S",
)
# SHAKE's permutation, of ML-DSA.
_S2N_KECCAK = "sha3/sha3_keccak_f1600.S"
# ML-DSA: mldsa-native, whose files include one another; ml_dsa.c includes the first of them.
ML_DSA = "aws-lc/crypto/fipsmodule/ml_dsa/mldsa"
ML_DSA_INCLUDED = tuple(
    f"{ML_DSA}/{name}"
    for name in (
        *("mldsa_native_bcm.c", "cbmc.h", "common.h", "ct.c", "ct.h", "debug.c", "debug.h", "mldsa_native.h"),
        *("packing.c", "packing.h", "params.h", "poly.c", "poly.h", "poly_kl.c", "poly_kl.h", "polyvec.c"),
        *("polyvec.h", "polyvec_lazy.c", "polyvec_lazy.h", "randombytes.h", "reduce.h", "rounding.h", "sign.c"),
        *("sign.h", "symmetric.h", "sys.h", "zetas.inc"),
    )
)
# SHA-256 for AArch64, by the Armv8 instructions and without them.
AWS_LC_HASH = "aws-lc/generated-src/linux-aarch64/crypto/fipsmodule/sha256-armv8.S"
# AES, likewise; and for other machines, without instructions of their own.
_AES = {
    "arm": tuple(
        f"aws-lc/generated-src/linux-aarch64/crypto/fipsmodule/{name}.S" for name in ("aesv8-armx", "vpaes-armv8")
    ),
    "x86_att": ("aws-lc/generated-src/linux-x86_64/crypto/fipsmodule/vpaes-x86_64.S",),
}
AWS_LC_ASSEMBLY_HEADERS = tuple(
    f"aws-lc/include/openssl/{name}.h"
    for name in ("arm_arch", "asm_base", "boringssl_prefix_symbols_asm", "target")
)
AWS_LC_INCLUDE = (f"{_S2N}/include", "aws-lc/include")
AWS_LC_LICENCE = "aws-lc/LICENSE"
BEARSSL_INCLUDE = ("inc", "src")

# Environment variable with `hashes.digest` of trees that are taken though their files are others, by commas.
ACCEPT = "GRAMOPHONE_ACCEPT_CRYPTO"


def s2n_machine(name: str = "") -> str | None:
    """s2n-bignum's name of a machine, as `uname -m` has it (default: this one's); None: it has nothing for it."""
    return _S2N_MACHINES.get(name or platform.machine())


def s2n_sources(machine: str, algorithms: Collection[KeyKind] = ()) -> tuple[str, ...]:
    """The assembler files for a machine, in AWS-LC's tree: those for ES256, and for other algorithms."""
    names = [*_S2N_FUNCTIONS, _S2N_REDUCTION[machine]]
    names += [_S2N_KECCAK] if KeyKind.ES256_ML_DSA_44 in algorithms else []
    names += [*_S2N_P384, _S2N_REDUCTION_384[machine]] if KeyKind.ES384 in algorithms else []
    names += _S2N_25519 if KeyKind.ED25519 in algorithms else []
    return tuple(sorted(f"{_S2N}/{machine}/{name}" for name in names))


def aes_sources(machine: str) -> tuple[str, ...]:
    """AES for a machine, in AWS-LC's tree."""
    return _AES[machine]


def s2n_headers(machine: str) -> tuple[str, ...]:
    """What `s2n_sources` and the seam include."""
    names = ("s2n-bignum.h", _S2N_HEADERS[machine])
    return (*(f"{_S2N}/include/{name}" for name in names), "aws-lc/include/openssl/boringssl_prefix_symbols_asm.h")


@dataclass(frozen=True)
class Libraries:
    """Source trees: BearSSL's, and AWS-LC's in Debian's source package of aws-lc-sys.

    Without AWS-LC, host builds take all from BearSSL; firmware needs both. Files are hashed once.
    """

    bearssl: Path
    aws_lc: Path | None = None

    def check(self, accepted: Collection[str] = ()) -> None:
        """Refuse trees that are not what they must be, file by file.

        Args:
            accepted: `hashes.digest` of trees that are taken although their files are others.

        Raises:
            GramophoneError: it is another program's tree, or a file has another SHA-256.
        """
        _check(
            self.bearssl,
            "a BearSSL source tree",
            [*HASH, *SHA512, *CURVE, *VERIFICATION, *INCLUDED, LICENCE, *HEADERS],
        )
        if self.aws_lc:
            needed = [
                name
                for each in _S2N_REDUCTION
                for name in (*s2n_sources(each, tuple(KeyKind)), *s2n_headers(each))
            ]
            needed += [name for each in _AES.values() for name in each]
            needed += [*ML_DSA_INCLUDED, AWS_LC_HASH, *AWS_LC_ASSEMBLY_HEADERS, AWS_LC_LICENCE]
            _check(self.aws_lc, "a source tree of aws-lc-sys", needed)
        for library, (tree, rows) in self._files.items():
            wrong, digest = hashes.differences(library, rows), hashes.digest(rows)
            if wrong and digest not in accepted:
                more = f", and {len(wrong) - 1} more files differ" if len(wrong) > 1 else ""
                raise GramophoneError(
                    f"{tree / wrong[0].name}: SHA-256: expected {wrong[0].expected}, found {wrong[0].found}{more}"
                    f"; {ACCEPT}={digest} takes all as it is, and what is made of it says 'unverified'"
                )

    @property
    def versions(self) -> dict[str, str]:
        """By name, as Debian's changelogs give them; "(unverified)" behind that of files with other hashes."""
        names = {"bearssl": ("BearSSL", "bearssl"), "aws-lc": ("AWS-LC", "rust-aws-lc-sys")}
        return {
            names[library][0]: _version(tree, names[library][1])
            + (" (unverified)" if hashes.differences(library, rows) else "")
            for library, (tree, rows) in self._files.items()
        }

    @cached_property
    def _files(self) -> dict[str, tuple[Path, dict[str, str]]]:
        """Library -> its tree, and the hashes of its files."""
        trees = {"bearssl": (self.bearssl, BEARSSL_INCLUDE), "aws-lc": (self.aws_lc, (*AWS_LC_INCLUDE, ML_DSA))}
        return {
            library: (tree, hashes.found(library, tree, include))
            for library, (tree, include) in trees.items()
            if tree is not None
        }


@dataclass(frozen=True)
class Linked:
    """What a host build of the replayer takes for its cryptography.

    Attributes:
        seam: our files, in this folder.
        sources: a library's files that are compiled.
        included: and those that are included.
        include: folders of headers.
        flags: for the linker.
        has_aes: encrypted traces can be read with it.
        algorithms: that it verifies, besides ES256.
    """

    seam: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    included: tuple[Path, ...] = ()
    include: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()
    has_aes: bool = True
    algorithms: tuple[KeyKind, ...] = ()


# By algorithm: the seam's file, and the macro that says that it is there.
SEAMS = {
    KeyKind.ES256_ML_DSA_44: ("ml_dsa.c", "GRAMOPHONE_ML_DSA"),
    KeyKind.ES384: ("s2n_p384.c", "GRAMOPHONE_ES384"),
    KeyKind.ED25519: ("s2n_ed25519.c", "GRAMOPHONE_ED25519"),
}
# Whose messages are hashed with SHA-384 or SHA-512.
WITH_SHA512 = frozenset({KeyKind.ES384, KeyKind.ED25519})


def linked(libraries: Libraries | None, algorithms: Collection[KeyKind] = ()) -> Linked:
    """What to link on this machine; without libraries, its OpenSSL.

    Args:
        libraries: source trees.
        algorithms: that are wanted, besides ES256: s2n-bignum and what is built on it has them, OpenSSL has ES384.
    """
    if libraries is None:
        known = (KeyKind.ES384,) if KeyKind.ES384 in algorithms else ()
        return Linked(("openssl.c",), flags=("-lcrypto",), algorithms=known)
    bearssl, aws_lc, machine = libraries.bearssl, libraries.aws_lc, s2n_machine()
    hashing = tuple(bearssl / name for name in HASH)
    include: tuple[Path, ...] = bearssl / "inc", bearssl / "src"
    if aws_lc is None or machine is None:
        curve = tuple(bearssl / name for name in (*CURVE, *VERIFICATION))
        included = tuple(bearssl / name for name in INCLUDED)
        return Linked(("bearssl_hash.c", "bearssl_p256.c"), (*hashing, *curve), included, include, has_aes=False)
    wanted = tuple(kind for kind in SEAMS if kind in algorithms)
    assembly = tuple(aws_lc / name for name in (*s2n_sources(machine, wanted), *aes_sources(machine)))
    headers = tuple(aws_lc / name for name in (*s2n_headers(machine), *AWS_LC_ASSEMBLY_HEADERS))
    include += tuple(aws_lc / name for name in AWS_LC_INCLUDE)
    if KeyKind.ES256_ML_DSA_44 in wanted:
        headers += tuple(aws_lc / name for name in ML_DSA_INCLUDED)
        include += (aws_lc / ML_DSA,)
    seam = ("bearssl_hash.c", "s2n_p256.c", "aws_lc_aes.c", *(SEAMS[kind][0] for kind in wanted))
    if WITH_SHA512 & {*wanted}:
        seam += ("bearssl_sha512.c",)
        hashing += tuple(bearssl / name for name in SHA512)
    return Linked(seam, (*hashing, *assembly), headers, include, algorithms=wanted)


def _check(folder: Path, what: str, needed: list[str]) -> None:
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise GramophoneError(f"{folder}: not {what}: expected {missing[0]}, found none")


def _version(folder: Path, package: str) -> str:
    changelog = folder / "debian" / "changelog"
    text = read_file_text(changelog) if changelog.is_file() else ""
    match = re.match(rf"{package} \(([^)]+)\)", text)
    return match[1] if match else "of unknown version"
