# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone encrypt` and `decrypt`."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.commands.decryption_keys import read_recipients
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, warn
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.commands.traces import inside
from host_tools.support.progress import phase
from host_tools.support.results import Count, Id, Result
from signing import encryption
from signing.envelope import shifted
from trace_format import layout


class Encrypted(Result):
    """A trace with its body encrypted."""

    file: str
    bytes: Count
    recipients: list[Id]


class Decrypted(Result):
    """A trace with its body decrypted."""

    file: str
    bytes: Count


FOR = click.option(
    "--for",
    "recipients",
    type=FILE,
    multiple=True,
    required=True,
    help=(
        "Public key (PEM, P-256) of a device, a fleet or a person that may read the trace; repeatable, at most 16."
    ),
)


@click.command(
    cls=GramophoneCommand,
    example=(
        "gramophone encrypt net.gtr --for device-7/device.encryption.pub.pem --for me.pub.pem -o net.enc.gtr\n"
        "gramophone sign net.enc.gtr --decrypt-with me.pem --signing-key owner.pem -o net.sgtr"
    ),
    reads_traces=True,
    keeps_encrypted=True,
)
@click.argument("trace", type=FILE)
@FOR
@OUTPUT
def encrypt(trace: Path, recipients: tuple[Path, ...], output: Path) -> Outcome[Encrypted]:
    """Encrypt a trace's actions, weights, shaders and notes.

    Only owners of a --for key can read the trace: add your own key to read it yourself. Name, slots and sizes
    stay readable, because callers need them. A signature of the plain body is removed: sign the encrypted trace.
    """
    data = read(trace)
    check_output(output)
    keys = read_recipients(recipients)
    content, offset = inside(data, str(trace))
    if offset:
        warn(f"{trace}: its signature is of the body as it was, so {output} has none: sign it")
    with phase(f"encrypting {trace}"), layout.naming(str(trace)), shifted(offset):
        made = encryption.encrypt(bytes(encryption.opened(content)), keys)
    write(output, made)
    kids = sorted(key.kid.hex() for key in keys)
    return Outcome(
        Encrypted(str(output), len(made), kids),
        "\n".join([f"{output}: {len(made)} bytes, encrypted for", *(f"  {kid}" for kid in kids)]),
    )


@click.command(
    cls=GramophoneCommand,
    example="gramophone decrypt net.sgtr --decrypt-with me.pem -o net.gtr",
    reads_traces=True,
)
@click.argument("trace", type=FILE)
@OUTPUT
def decrypt(trace: Path, output: Path) -> Outcome[Decrypted]:
    """Decrypt a trace.

    A signature is removed, because it covers the encrypted body. Nothing is verified; `verify` does that.
    """
    data = read(trace)
    check_output(output)
    content, offset = inside(data, str(trace))
    with layout.naming(str(trace)), shifted(offset):
        is_encrypted = layout.is_encrypted(layout.read_header(content))
        made = bytes(encryption.opened(content))
        encryption.parse(made)
    if not is_encrypted:
        warn(f"{trace} is not encrypted")
    write(output, made)
    return Outcome(Decrypted(str(output), len(made)), f"{output}: {len(made)} bytes")
