# SPDX-License-Identifier: BSD-2-Clause
"""How commands are told who signs: a file, a token, a program, or a signature that was made elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, UsageError
from host_tools.commands.keys import given_passphrase, passphrase_options, read_private_key
from host_tools.commands.streams import read
from host_tools.support.results import Count, Id, Positive, Result
from signing.errors import SignerError
from signing.key_files import is_encrypted, load_public_key
from signing.keys import Algorithm, PublicKey
from signing.sign import FileSigner, HybridSigner, Signer
from signing.signers import ANSWER_BYTES, CommandSigner, GivenSignature
from signing.tokens import TokenSigner
from signing.trust import DEVICE_ID_BYTES
from signing.trust_verdict import NO_ID, TrustVerdict
from trace_format import limits
from trace_format.files import read_file

HALVES = ("es256", "ml-dsa-44")  # of a hybrid key
_WAYS = "--signing-key, --pkcs11, --signer-command, --signature or --to-be-signed"


@dataclass(frozen=True)
class Chosen:
    """What the options say.

    Attributes:
        public: the key.
        signer: who signs with it; None: nobody here, what is to be signed is written instead.
        file: with a signature that was made elsewhere.
        half: of a hybrid key, the one that is to sign elsewhere.
    """

    public: PublicKey
    signer: Signer | None
    file: Path | None = None
    half: PublicKey | None = None

    @property
    def signing(self) -> PublicKey:
        """The key, or the half of a hybrid one, that is to sign elsewhere; UsageError where none was chosen."""
        if self.half is None and self.public.algorithm is Algorithm.HYBRID:
            raise UsageError(f"the halves of a hybrid key sign other bytes each: --half {' or '.join(HALVES)}")
        return self.half or self.public

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Put the file's name in front of what is wrong with its signature."""
        try:
            yield
        except SignerError as error:
            raise SignerError(f"{self.file}: {error}" if self.file else str(error)) from None


class DeviceId(click.ParamType):  # type: ignore[type-arg]
    """16 bytes in hexadecimal."""

    name = "hex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The bytes."""
        if isinstance(value, bytes):
            return value
        try:
            found = bytes.fromhex(value)
        except ValueError:
            found = b""
        if len(found) != DEVICE_ID_BYTES or found == NO_ID:
            self.fail(f"{value!r}: expected 32 digits in hexadecimal, not all of them 0", param, ctx)
        return found


class Trust(Result):
    """A verdict under a trust policy.

    Attributes:
        status: OK, or the status with which a device refuses it.
        rule: Names of the traces that the rule is about.
        signed: Ids of the rule's keys that have signed.
    """

    status: str
    policy: str
    version: Positive
    rule: str | None
    threshold: Positive | None
    signed: list[Id]
    missing: Count | None


def trust_data(found: TrustVerdict) -> Trust:
    """What JSON says of a verdict under a trust policy."""
    quorum = found.quorum
    return Trust(
        status=found.status.name,
        policy=found.policy.name,
        version=found.policy.version,
        rule=found.rule.pattern if found.rule else None,
        threshold=found.rule.role.threshold if found.rule else None,
        signed=sorted(kid.hex() for kid in quorum.signed) if quorum is not None else [],
        missing=quorum.missing if quorum is not None else None,
    )


def signer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say who signs; the command gets them as `signer`, a function that reads them."""
    for option in reversed(
        (
            click.option("--signing-key", type=FILE, help="Private key (PEM: PKCS#8, SEC 1, OpenSSH)."),
            click.option(
                "--pkcs11", metavar="URI", help="Key on a token: 'pkcs11:token=T;object=NAME' (RFC 7512)."
            ),
            click.option(
                "--signer-command",
                metavar="COMMAND",
                help="Program that signs standard input, or file {input}, to standard output, or file {output}.",
            ),
            click.option("--signature", type=FILE, help="Signature of the bytes that --to-be-signed wrote."),
            click.option(
                "--to-be-signed",
                is_flag=True,
                help="Write the bytes to sign, for signing elsewhere.",
            ),
            click.option(
                "--half",
                type=click.Choice(list(HALVES)),
                help="Half of a hybrid key to write bytes for. Requires --to-be-signed.",
            ),
            click.option(
                "--ml-dsa-key",
                type=FILE,
                help="Private key (PEM) of a hybrid key's ML-DSA half, beside a signer with ES256.",
            ),
            click.option(
                "--ml-dsa-signature", type=FILE, help=("Signature by a hybrid key's ML-DSA half, made elsewhere.")
            ),
            click.option(
                "--public-key",
                type=FILE,
                help=(
                    "Public key (PEM) for --signer-command, --signature and --to-be-signed, or for a token "
                    "without one."
                ),
            ),
        )
    ):
        function = option(function)
    return passphrase_options(function)


def chosen(
    signing_key: Path | None,
    pkcs11: str | None,
    signer_command: str | None,
    signature: Path | None,
    to_be_signed: bool,
    half: str | None,
    ml_dsa_key: Path | None,
    ml_dsa_signature: Path | None,
    public_key: Path | None,
    passphrase_file: Path | None,
    passphrase_env: str | None,
) -> Chosen:
    """Who signs, by the options.

    Raises:
        UsageError: not one way, or without the public key that it needs.
        KeyFileError, PassphraseError, SignerError: the key cannot be had.
    """
    ways = (signing_key, pkcs11, signer_command, signature, to_be_signed or None)
    if sum(way is not None for way in ways) != 1:
        raise UsageError(f"who signs? Expected one of {_WAYS}")
    passphrase = given_passphrase(passphrase_file, passphrase_env)
    public, second = None, None
    if public_key:
        public = load_public_key(read_file(public_key, limits.SMALL_BYTES), file=str(public_key))
    is_hybrid = public is not None and public.algorithm is Algorithm.HYBRID
    if half and not (is_hybrid and to_be_signed):
        raise UsageError("--half is for --to-be-signed with a hybrid --public-key")
    if ml_dsa_key or ml_dsa_signature:
        if (ml_dsa_key and ml_dsa_signature) or to_be_signed:
            raise UsageError(
                "the ML-DSA half: expected one of --ml-dsa-key and --ml-dsa-signature, beside a signer"
            )
        second = _ml_dsa(ml_dsa_key, ml_dsa_signature, public, passphrase)
        public = public.halves[0] if public is not None else None
    elif is_hybrid and not to_be_signed:
        raise UsageError("of a hybrid key both halves sign: --ml-dsa-key or --ml-dsa-signature has the other one")
    found = _first(signing_key, pkcs11, signer_command, signature, public, public_key, passphrase)
    if second is not None and found.signer is not None:
        signer = HybridSigner(found.signer, second)
        return Chosen(signer.public, signer, found.file)
    if half and public is not None:
        return Chosen(public, None, half=public.halves[HALVES.index(half)])
    return found


def _ml_dsa(
    key: Path | None, signature: Path | None, public: PublicKey | None, passphrase: bytes | None
) -> Signer:
    """Who signs with the ML-DSA half of a hybrid key."""
    if key:
        return FileSigner(read_private_key(key, passphrase if is_encrypted(read(key), str(key)) else None))
    assert signature is not None
    if public is None or public.algorithm is not Algorithm.HYBRID:
        raise UsageError("--ml-dsa-signature needs a hybrid --public-key: it says whose signature it is")
    return GivenSignature(public.halves[1], read(signature, ANSWER_BYTES))


def _first(
    signing_key: Path | None,
    pkcs11: str | None,
    signer_command: str | None,
    signature: Path | None,
    public: PublicKey | None,
    public_key: Path | None,
    passphrase: bytes | None,
) -> Chosen:
    """Who signs, but for a hybrid key's ML-DSA half."""
    if signing_key:
        if public_key:
            raise UsageError("--signing-key has its public key in it: leave out --public-key")
        file_signer = FileSigner(read_private_key(signing_key, passphrase))
        return Chosen(file_signer.public, file_signer)
    if pkcs11:
        if passphrase is None and sys.stdin.isatty():
            passphrase = click.prompt(f"PIN of {pkcs11}", hide_input=True, err=True).encode()
        token = TokenSigner.find(pkcs11, passphrase, public)
        return Chosen(token.public, token)
    if passphrase is not None:
        raise UsageError("a passphrase is of --signing-key and --pkcs11 only")
    if public is None:
        raise UsageError("--public-key says whose signature it is; it is missing")
    if signer_command is not None:
        return Chosen(public, CommandSigner(public, signer_command))
    if signature:
        return Chosen(public, GivenSignature(public, read(signature, ANSWER_BYTES)), signature)
    return Chosen(public, None)
