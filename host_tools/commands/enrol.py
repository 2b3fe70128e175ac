# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone enrol`: the keys of a device."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, warn
from host_tools.commands.option_rules import excludes
from host_tools.commands.streams import read
from host_tools.support.files import write_atomically
from host_tools.support.results import Id, Result
from signing import device_keys
from signing.device_keys import LOG_KEY, PUBLIC
from signing.keys import PublicKey
from trace_format import limits
from trace_format.errors import GramophoneError

SECRET, ENCRYPTION = "device.secret", "device.encryption.pub.pem"


class Enrolled(Result):
    """Keys of a device that were made."""

    folder: str
    files: list[str]
    key_id: Id
    encryption_key_id: Id


@click.command(
    cls=GramophoneCommand,
    example=(
        "gramophone enrol -o device-7\ngramophone enrol --secret fused.bin -o device-7\n"
        "gramophone enrol --huk fused-huk.bin -o device-8"
    ),
)
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write; existing files are an error.")
@click.option("--secret", type=FILE, help="Device secret, 32 bytes; default: a new random secret.")
@click.option(
    "--huk", type=FILE, help=("Hardware unique key of a device with OP-TEE, 16 bytes, to derive the secret from.")
)
@excludes("--secret", "--huk")
def enrol(output: Path, secret: Path | None, huk: Path | None) -> Outcome[Enrolled]:
    """Make a device's secret, and keys for its verifiers.

    device.secret is only for the device. log.key authenticates the entries of its log: its owner can also forge
    entries. device.pub.pem verifies attestations, and device.encryption.pub.pem encrypts traces; both are
    public.
    """
    value = read(secret, limits.SMALL_BYTES) if secret else device_keys.new_secret()
    if huk:
        key = read(huk, limits.SMALL_BYTES)
        value = device_keys.secret_of_huk(key, file=str(huk))
        if len(set(key)) == 1:
            warn(f"{huk}: {len(key)} times {key[0]:#04x}, as of a platform that has no key of its own")
    made = device_keys.derive(value, file=str(secret or ""))
    output.mkdir(exist_ok=True)
    files = {SECRET: (value, 0o600), LOG_KEY: (made.log, 0o600), PUBLIC: (made.public.pem(), 0o666)}
    recipient = PublicKey(made.decryption.public_key())
    files[ENCRYPTION] = (recipient.pem(), 0o666)
    for name in files:
        if (output / name).exists():
            raise GramophoneError(f"{output / name}: exists; what was enrolled with it would be lost")
    for name, (data, mode) in files.items():
        write_atomically(output / name, data, mode=mode, overwrite=False)
    return Outcome(
        Enrolled(str(output), list(files), made.public.kid.hex(), recipient.kid.hex()),
        f"{output}: {', '.join(files)}; attestation key {made.public.kid.hex()}, "
        f"encryption key {recipient.kid.hex()}",
    )
