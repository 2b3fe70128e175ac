# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone key new`, `key public` and `key show`; and how commands read keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, say, warn
from host_tools.commands.option_rules import excludes
from host_tools.commands.results import AlgorithmName
from host_tools.commands.streams import read, write
from host_tools.support.results import Hex, Id, Result
from signing import key_files, keys
from signing.errors import PassphraseError
from signing.sign import FileSigner
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import read_line

ALGORITHMS = {
    "es256": keys.Algorithm.ES256,
    "hybrid": keys.Algorithm.HYBRID,
    "es384": keys.Algorithm.ES384,
    "eddsa": keys.Algorithm.EDDSA,
    "ml-dsa-44": keys.Algorithm.ML_DSA_44,
}
# Those that a replayer can be built for: under a trust policy.


def passphrase_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say where a passphrase comes from."""
    function = click.option("--passphrase-env", metavar="NAME", help="Environment variable with the passphrase.")(
        function
    )
    return click.option("--passphrase-file", type=FILE, help="File whose first line is the passphrase.")(function)


def given_passphrase(file: Path | None, env: str | None) -> bytes | None:
    """The passphrase that the options name, None if they name none; PassphraseError when it is not there."""
    if file and env:
        raise UsageError("--passphrase-file cannot be combined with --passphrase-env")
    if file:
        where, passphrase = str(file), _first_line(file)
    elif env:
        where, passphrase = f"environment variable {env}", os.environb.get(os.fsencode(env), b"")
    else:
        return None
    if not passphrase:
        raise PassphraseError("no passphrase there", file=where)
    return passphrase


def _first_line(file: Path) -> bytes:
    """What a passphrase is; the file may be a pipe from the program that knows it, as of `<(PROGRAM)`."""
    return read_line(file, limits.PASSPHRASE_BYTES).removesuffix(b"\r")


def read_private_key(path: Path, passphrase: bytes | None) -> keys.PrivateKey:
    """Read a private key; prompts for its passphrase if there is a terminal."""
    pem = read(path)
    name = str(path)
    # An encrypted key of OpenSSH is not read anyway.
    asks = key_files.is_encrypted(pem, name) and key_files.pem_label(pem, name) != key_files.OPENSSH
    if passphrase is None and asks and sys.stdin.isatty():
        passphrase = click.prompt(f"Passphrase of {path}", hide_input=True, err=True).encode()
    return key_files.load_private_key(pem, passphrase, file=str(path))


def read_any_key(path: Path, passphrase: bytes | None) -> tuple[keys.PublicKey, str]:
    """The public half of a key file, and what the file holds, in words."""
    pem = read(path)
    if key_files.pem_label(pem, str(path)) == "PUBLIC KEY":
        return key_files.load_public_key(pem, file=str(path)), "public"
    kind = "private, encrypted" if key_files.is_encrypted(pem, str(path)) else "private, not encrypted"
    return FileSigner(read_private_key(path, passphrase)).public, kind


class KeyMade(Result):
    """A key that was made."""

    file: str
    algorithm: AlgorithmName
    key_id: Id
    encrypted: bool


class PublicKeyFile(Result):
    """A public key in a file."""

    file: str
    algorithm: AlgorithmName
    key_id: Id


class PublicKeyText(Result):
    """A public key as text.

    Attributes:
        text: PEM, or C with --c.
    """

    text: str
    algorithm: AlgorithmName
    key_id: Id


class KeyFile(Result):
    """What is in a key file.

    Attributes:
        public_key: As a device needs it, in hex.
    """

    file: str
    algorithm: AlgorithmName
    key_id: Id
    private: bool
    encrypted: bool
    public_key: Hex


def key_data(key: keys.PublicKey) -> dict[str, Any]:
    """What JSON says of a key."""
    return {"algorithm": key.algorithm.title, "key_id": key.kid.hex()}


@click.command(
    "new",
    cls=GramophoneCommand,
    example="gramophone key new -o owner.pem --ask-passphrase",
)
@click.option("-o", "--output", type=FILE, required=True, help="File to write, readable only by you.")
@click.option(
    "--algorithm",
    type=click.Choice(list(ALGORITHMS)),
    default="es256",
    show_default=True,
    help=(
        "Kind of key; es384, eddsa (Ed25519) and hybrid (es256 with ml-dsa-44) need a device with a trust policy."
    ),
)
@passphrase_options
@click.option("--ask-passphrase", is_flag=True, help="Ask for the passphrase.")
@click.option("--force", is_flag=True, help="Replace the file if it exists; its key is lost.")
@excludes("--ask-passphrase", "--passphrase-file", "--passphrase-env")
def keygen(
    output: Path,
    algorithm: str,
    passphrase_file: Path | None,
    passphrase_env: str | None,
    ask_passphrase: bool,
    force: bool,
) -> Outcome[KeyMade]:
    """Make a private key (PEM, PKCS#8). A passphrase encrypts it."""
    passphrase = given_passphrase(passphrase_file, passphrase_env)
    if ask_passphrase:
        passphrase = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True).encode()
    key = keys.generate(ALGORITHMS[algorithm])
    try:
        write(output, key_files.private_pem(key, passphrase), mode=0o600, overwrite=force)
    except FileExistsError:
        raise GramophoneError(f"{output}: exists; --force replaces it, and its key is lost") from None
    if algorithm == "ml-dsa-44":
        warn("it is half of a hybrid key: cat ES256.pem ML-DSA.pem > HYBRID.pem makes the whole")
    elif algorithm != "es256":
        warn("it counts under a trust policy only (docs/KEYS.md): a device with one key verifies ES256")
    if passphrase is None:
        say("note: the key is not encrypted; whoever reads the file can sign")
    public = FileSigner(key).public
    made = KeyMade(str(output), public.algorithm.title, public.kid.hex(), encrypted=passphrase is not None)
    return Outcome(made, f"{output}: {made.algorithm} key {made.key_id}")


@click.command("public", cls=GramophoneCommand, example="gramophone key public owner.pem -o owner.pub.pem")
@click.argument("key", type=FILE)
@click.option("-o", "--output", type=FILE, help="File to write; default: standard output.")
@click.option("--c", "as_c", is_flag=True, help=("Print C arrays: the key id, and the key in the device's form."))
@passphrase_options
def getpub(
    key: Path, output: Path | None, as_c: bool, passphrase_file: Path | None, passphrase_env: str | None
) -> Outcome[PublicKeyFile | PublicKeyText]:
    """Write the public key of a key file (PEM)."""
    public, _ = read_any_key(key, given_passphrase(passphrase_file, passphrase_env))
    text = public.c_source() if as_c else public.pem().decode()
    if output:
        write(output, text.encode())
        return Outcome(PublicKeyFile(str(output), **key_data(public)), f"{output}: key {public.kid.hex()}")
    return Outcome(PublicKeyText(text, **key_data(public)), text.removesuffix("\n"))


@click.command("show", cls=GramophoneCommand, example="gramophone key show owner.pem")
@click.argument("key", type=FILE)
@passphrase_options
def keyinfo(key: Path, passphrase_file: Path | None, passphrase_env: str | None) -> Outcome[KeyFile]:
    """Show the kind and id of a key."""
    public, kind = read_any_key(key, given_passphrase(passphrase_file, passphrase_env))
    data = KeyFile(
        str(key),
        **key_data(public),
        private=kind != "public",
        encrypted=kind == "private, encrypted",
        public_key=public.raw.hex(),
    )
    rows = {"algorithm": data.algorithm, "key id": data.key_id, "kind": kind, "public key": data.public_key}
    return Outcome(data, "\n".join(f"{name + ':':12}{value}" for name, value in rows.items()))
