# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone keygen`, `getpub`, `keyinfo`, `sign`, `strip` and `verify`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from host_tools.audit.judgement import judge
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, say, warn
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.model.summary import lines as summary_lines
from host_tools.model.summary import summary
from host_tools.support.progress import phase
from signing import keys
from signing.envelope import shifted, split
from signing.errors import PassphraseError
from signing.sign import FileSigner, sign_parsed
from tee_replayer.generator.target import drivers
from trace_format import layout, policy
from trace_format.errors import GramophoneError, MagicError
from trace_format.schema import HEADER_FLAG_RAW, SIGNED_MAGIC, TRACE_MAGIC
from trace_format.trace import Trace

ALGORITHMS = {"es256": keys.Algorithm.ES256, "eddsa": keys.Algorithm.EDDSA}


def passphrase_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say where a passphrase comes from."""
    function = click.option(
        "--passphrase-env", metavar="NAME", help="The passphrase is in this environment variable."
    )(function)
    return click.option("--passphrase-file", type=FILE, help="The passphrase is the first line of this file.")(
        function
    )


def given_passphrase(file: Path | None, env: str | None) -> bytes | None:
    """The passphrase that the options name, None if they name none; PassphraseError when it is not there."""
    if file and env:
        raise UsageError("--passphrase-file and --passphrase-env exclude each other")
    if file:
        where, passphrase = str(file), file.read_bytes().split(b"\n", 1)[0].removesuffix(b"\r")
    elif env:
        where, passphrase = f"environment variable {env}", os.environb.get(os.fsencode(env), b"")
    else:
        return None
    if not passphrase:
        raise PassphraseError("no passphrase there", file=where)
    return passphrase


def read_private_key(path: Path, passphrase: bytes | None) -> keys.PrivateKey:
    """Read a private key; prompts for its passphrase if there is a terminal."""
    pem = read(path)
    asks = keys.is_encrypted(pem, str(path)) and keys.pem_label(pem, str(path)) != keys.OPENSSH  # not read anyway
    if passphrase is None and asks and sys.stdin.isatty():
        passphrase = click.prompt(f"Passphrase of {path}", hide_input=True, err=True).encode()
    return keys.load_private_key(pem, passphrase, file=str(path))


def read_any_key(path: Path, passphrase: bytes | None) -> tuple[keys.PublicKey, str]:
    """The public half of a key file, and what the file holds, in words."""
    pem = read(path)
    if keys.pem_label(pem, str(path)) == "PUBLIC KEY":
        return keys.load_public_key(pem, file=str(path)), "public"
    kind = "private, encrypted" if keys.is_encrypted(pem, str(path)) else "private, not encrypted"
    return FileSigner(read_private_key(path, passphrase)).public, kind


def _key_data(key: keys.PublicKey) -> dict[str, Any]:
    return {"algorithm": key.algorithm.title, "key_id": key.kid.hex()}


@click.command(
    cls=GramophoneCommand,
    example="gramophone keygen -o owner.pem --ask-passphrase",
)
@click.option("-o", "--output", type=FILE, required=True, help="File to write, readable only by you.")
@click.option(
    "--algorithm",
    type=click.Choice(list(ALGORITHMS)),
    default="es256",
    show_default=True,
    help="Kind of key; devices verify es256 only.",
)
@passphrase_options
@click.option("--ask-passphrase", is_flag=True, help="Type the passphrase.")
@click.option("--force", is_flag=True, help="Replace the file if it exists; its key is lost.")
def keygen(
    output: Path,
    algorithm: str,
    passphrase_file: Path | None,
    passphrase_env: str | None,
    ask_passphrase: bool,
    force: bool,
) -> Outcome:
    """Make a private key (PEM, PKCS#8), encrypted if there is a passphrase."""
    passphrase = given_passphrase(passphrase_file, passphrase_env)
    if ask_passphrase:
        if passphrase is not None:
            raise UsageError("--ask-passphrase excludes the other passphrase options")
        passphrase = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True).encode()
    key = keys.generate(ALGORITHMS[algorithm])
    try:
        write(output, keys.private_pem(key, passphrase), mode=0o600, overwrite=force)
    except FileExistsError:
        raise GramophoneError(f"{output}: exists; --force replaces it, and its key is lost") from None
    if ALGORITHMS[algorithm] is not keys.Algorithm.ES256:
        warn(f"no device takes traces of this key yet: devices verify ES256 only, and not {algorithm}")
    if passphrase is None:
        say("note: the key is not encrypted; whoever reads the file can sign")
    data = _key_data(FileSigner(key).public)
    return Outcome(
        {"file": str(output), **data, "encrypted": passphrase is not None},
        f"{output}: {data['algorithm']} key {data['key_id']}",
    )


@click.command(cls=GramophoneCommand, example="gramophone getpub owner.pem -o owner.pub.pem")
@click.argument("key", type=FILE)
@click.option("-o", "--output", type=FILE, help="File to write; standard output if left out.")
@click.option("--c", "as_c", is_flag=True, help="As C arrays: key id, and the key as a device needs it.")
@passphrase_options
def getpub(
    key: Path, output: Path | None, as_c: bool, passphrase_file: Path | None, passphrase_env: str | None
) -> Outcome:
    """Get the public key of a key file (PEM)."""
    public, _ = read_any_key(key, given_passphrase(passphrase_file, passphrase_env))
    text = public.c_source() if as_c else public.pem().decode()
    if output:
        write(output, text.encode())
        return Outcome({"file": str(output), **_key_data(public)}, f"{output}: key {public.kid.hex()}")
    return Outcome({"text": text, **_key_data(public)}, text.removesuffix("\n"))


@click.command(cls=GramophoneCommand, example="gramophone keyinfo owner.pem")
@click.argument("key", type=FILE)
@passphrase_options
def keyinfo(key: Path, passphrase_file: Path | None, passphrase_env: str | None) -> Outcome:
    """Say what is in a key file."""
    public, kind = read_any_key(key, given_passphrase(passphrase_file, passphrase_env))
    data = {
        "file": str(key),
        **_key_data(public),
        "private": kind != "public",
        "encrypted": kind == "private, encrypted",
        "public_key": public.raw.hex(),
    }
    rows = {
        "algorithm": data["algorithm"],
        "key id": data["key_id"],
        "kind": kind,
        "public key": data["public_key"],
    }
    return Outcome(data, "\n".join(f"{name + ':':12}{value}" for name, value in rows.items()))


@click.command(
    cls=GramophoneCommand,
    example="gramophone sign net.gtr --signing-key owner.pem -o net.sgtr",
    in_place="replace",
)
@click.argument("trace", type=FILE)
@click.option("--signing-key", type=FILE, required=True, help="Private key (PEM: PKCS#8, SEC 1, OpenSSH).")
@OUTPUT
@click.option("--replace", is_flag=True, help="Take a signed trace too, and give it this signature instead.")
@passphrase_options
def sign(
    trace: Path,
    signing_key: Path,
    output: Path,
    replace: bool,
    passphrase_file: Path | None,
    passphrase_env: str | None,
) -> Outcome:
    """Sign a trace. The same trace and key always give the same bytes.

    What it does is printed. A trace that every device refuses is not signed: one that is malformed, or that does
    to a register what its GPU's policy does not allow (docs/REGISTERS.md). Traces that 'gramophone build' makes of
    recordings are accepted.
    """
    file, offset = read(trace), 0
    check_output(output)
    data = memoryview(file)
    if file.startswith(SIGNED_MAGIC):
        if not replace:
            raise MagicError(
                "signed already (--replace gives it another signature, 'gramophone strip' takes it away)",
                offset=0,
                expected=TRACE_MAGIC.hex(),
                found=SIGNED_MAGIC.hex(),
                file=str(trace),
            )
        data, offset = unsigned(file, trace)
    signer = FileSigner(read_private_key(signing_key, given_passphrase(passphrase_file, passphrase_env)))
    try:
        with phase(f"checking {trace}"), shifted(offset):
            content = Trace.parse(data, str(trace))
            signature = sign_parsed(content, data, signer, file=str(trace))
    except policy.PolicyError as error:
        is_raw = layout.read_header(data)["flags"] & HEADER_FLAG_RAW
        advice = "; 'gramophone build' makes a trace of a raw recording that devices accept" if is_raw else ""
        raise GramophoneError(f"{error}: every device refuses it, so it is not signed{advice}") from error
    with phase(f"writing {output}"):
        write(output, signature, data)
    signed_bytes = len(signature) + len(data)
    for warning in _device_warnings(content, signer.alg):
        warn(f"{trace}: {warning}")
    if content.raw:
        warn(
            f"{trace} is a raw recording, which another device may not be able to replay; "
            "'gramophone build' makes a trace of it"
        )
    return Outcome(
        {
            "file": str(output),
            **_key_data(signer.public),
            "trace_bytes": len(data),
            "bytes": signed_bytes,
            "summary": summary(content),
        },
        "\n".join(
            [
                f"{output}: {signed_bytes} bytes, signed by {signer.alg.title} key {signer.kid.hex()}",
                *summary_lines(content),
            ]
        ),
    )


def unsigned(data: bytes, path: Path) -> tuple[memoryview, int]:
    """A view of the trace in a signed file, and where it starts; nothing is verified. TraceError: it is none."""
    with layout.naming(str(path)):
        signed = split(data)
    return signed.trace, signed.offset


@click.command(cls=GramophoneCommand, example="gramophone strip net.sgtr -o net.gtr")
@click.argument("signed", type=FILE)
@OUTPUT
def strip(signed: Path, output: Path) -> Outcome:
    """Take the signature away: the trace without its envelope. Nothing is verified; `verify` does that."""
    data = read(signed)
    check_output(output)
    content, offset = unsigned(data, signed)
    with layout.naming(str(signed)), shifted(offset):
        Trace.parse(content)
    write(output, content)
    return Outcome(
        {"file": str(output), "bytes": len(content), "removed_bytes": offset},
        f"{output}: {len(content)} bytes, without a signature",
    )


def _device_warnings(trace: Trace, algorithm: keys.Algorithm) -> Iterator[str]:
    """Why devices of this version cannot replay a trace although it is well signed."""
    if algorithm != keys.Algorithm.ES256:
        yield f"devices verify ES256 only, and not {algorithm.title}"
    if trace.gpu not in drivers():
        yield f"there is no replayer for {trace.gpu}; 'gramophone build --gpu' makes a trace for another GPU"


@click.command(cls=GramophoneCommand, example="gramophone verify net.sgtr --key owner.pub.pem")
@click.argument("trace", type=FILE)
@click.option("--key", type=FILE, required=True, multiple=True, help="Trusted public key (PEM); repeatable.")
def verify(trace: Path, key: tuple[Path, ...]) -> Outcome:
    """Check who signed a trace, and that no bit of it has changed since.

    What it does is judged too, as by `sign`. Exit status 1: it is a signed trace, but not what the owner of a
    trusted key signed, or it is, and every device refuses it.
    """
    trusted = [keys.load_public_key(path.read_bytes(), file=str(path)) for path in key]
    with phase(f"verifying {trace}"):
        found = judge(read(trace), trusted, str(trace))
    result, content = found.signature, found.content
    if found.not_judged:
        warn(found.not_judged)
    lines = [f"{'verified' if found.ok else 'REFUSED'}: {found.reason}"]
    return Outcome(
        {
            "file": str(trace),
            "verdict": found.verdict,
            "reason": found.reason,
            "algorithm": result.algorithm.title if result.algorithm else None,
            "key_id": result.kid.hex() if result.kid else None,
            "summary": summary(content) if content else None,
        },
        "\n".join(lines + (summary_lines(content) if content else [])),
        found.ok,
    )
