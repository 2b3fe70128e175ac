# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone generate`, and the options that it shares with what runs replayers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from host_tools.commands.decryption_keys import read_decryption_key
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.generate_options import deprecate, of_options, old_options
from host_tools.commands.signers import DeviceId
from host_tools.runners.libraries import source as libraries_source
from host_tools.runners.optee.bundle import bundle
from host_tools.support.progress import phase
from host_tools.support.results import Ids, Result
from signing import encryption
from signing.trust_verdict import NO_ID
from tee_replayer.generator import linux_folder
from tee_replayer.generator.boards import Board
from tee_replayer.generator.device_file import DeviceFile, read
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.generated_folder import check_replaceable
from tee_replayer.generator.options import Options

_BESIDE = "files beside the emulator"

KEY = click.option("--key", type=FILE, required=True, help="Trusted public key (PEM) or trust policy (.gtp).")
DEVICE_ID = click.option(
    "--device-id",
    type=DeviceId(),
    default=NO_ID,
    show_default="none",
    help="Device id, 32 hexadecimal digits, for trust policies that name devices.",
)
MIN_VERSION = click.option(
    "--min-security-version",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help=("Lowest security version to accept."),
)
BEARSSL = click.option(
    "--bearssl", type=FILE, help=("Source tree of BearSSL; default: Debian's, downloaded once.")
)
AWS_LC = click.option("--aws-lc", type=FILE, help="Source tree of aws-lc-sys; default: Debian's, downloaded once.")


def fleet_key_of(file: Path | None) -> bytes:
    """The fleet's private key in a file; empty: there is none."""
    return encryption.key_bytes(read_decryption_key(file)) if file else b""


class Generated(Result):
    """A replayer that was written.

    Attributes:
        profile: null: no profile has these features.
    """

    folder: str
    gpu: str
    platform: str
    key_id: Ids
    profile: str | None
    features: Sequence[str]
    files: list[str]


@click.command(
    "generate",
    cls=GramophoneCommand,
    example="gramophone generate device.toml -o out\nmake -C out size",
)
@click.argument("device_file", type=FILE, required=False)
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write; replaces a generated folder.")
@click.option("--force", is_flag=True, help="Replace the folder even if its files were edited or added.")
@click.option("--untested", is_flag=True, help="Allow a set of features that no profile has.")
@old_options
def generate_command(
    device_file: Path | None, output: Path, force: bool, untested: bool, **old: object
) -> Outcome[Generated]:
    """Write a device's replayer: C sources and a Makefile.

    DEVICE_FILE names the GPU, platform, key and profile, a set of features (docs/DEVICE-FILE.md). For the
    platform "optee" the replayer is a pseudo-TA, a part of OP-TEE's core; sub.mk adds it. For "linux" it is a
    command and a library that access the GPU through UIO (docs/LINUX.md). A folder with edited files is not
    replaced: make changes outside the folder.
    """
    found = of_options(old, device_file)
    if device_file:
        found = read(device_file), ""
    if found is None:
        raise UsageError("expected a device file (docs/DEVICE-FILE.md), found none")
    device, deprecated = found
    _keep([device_file, *device.paths] if device_file else device.paths, output)
    words = f"expected the features of a profile, found an {device.features.words}"
    if not device.features.profile and not untested and not deprecated:
        raise UsageError(f"{device.file}: {words}; --untested allows it")
    fleet_key = fleet_key_of(device.fleet_key)
    device.options(fleet_key)  # all checks, before what takes long
    check_replaceable(output, force=force)
    optee = isinstance(device.board, Board) and device.board.runs_optee
    with phase("fetching the crypto libraries' sources"):
        crypto = libraries_source(device.bearssl, device.aws_lc)
    if deprecated:
        deprecate(deprecated)
    if not device.features.profile:
        warn(f"{device.file}: {words}")
    programs = {"client/gramophone-tee": bundle()} if optee else {}
    options = device.options(fleet_key, crypto, programs)
    folder = generate_sources(options, output, force=force)
    files = sorted(
        str(p.relative_to(folder))
        for p in folder.rglob("*")
        if p.is_file() and not {"bearssl", "aws-lc"} & set(p.relative_to(folder).parts)
    )
    for warning in _warnings(device, options, folder):
        warn(warning)
    data = Generated(
        str(folder),
        device.gpu,
        options.target.name,
        device.key.kid.hex(),
        device.features.profile or None,
        device.features.names,
        files,
    )
    command = f"make -C {shlex.quote(str(folder))}"
    following = f"see {folder}/README.md" if optee or isinstance(device.board, str) else command
    return Outcome(data, f"{folder}: {', '.join(files)}\nnext: {following}")


def _keep(inputs: Iterable[Path], output: Path) -> None:
    """Refuse an output that is an input, or the folder that one lies in."""
    place = os.path.realpath(output)
    for path in inputs:
        if os.path.realpath(path) == place:
            raise UsageError(f"{output}: the output is one of the files that are read")
        if Path(place) in Path(os.path.realpath(path)).parents:
            raise UsageError(f"{path}: expected a file outside the output {output}, which is replaced")


def _warnings(device: DeviceFile, options: Options, folder: Path) -> Iterator[str]:
    """What the replayer does not protect."""
    board, features, name = device.board, device.features, options.target.name
    if name == linux_folder.PLATFORM:
        yield "the kernel and its root see all that is replayed and can change it: docs/LINUX.md"
    if isinstance(board, Board) and not board.is_silicon:
        optee = "OP-TEE's own hardware unique key is all zeros, its storage a folder"
        if features.evidence.log:
            where = optee if board.runs_optee else _BESIDE
            yield f"{name} protects neither the device's secret nor its log's tail: {where}"
        if features.store:
            yield f"{name} protects no versions: the normal world reaches their flash, a file beside the emulator"
        if features.clock:
            yield f"{name} has no clock of the secure world: the normal world can set it"
    if isinstance(board, Board) and device.mmu is False and (why := board.with_mmu(False).bit_from_mailbox):
        yield f"without an MMU one flipped bit leads out of secure memory: {why}"
    if device.fleet_key:
        holder = "whoever can read the firmware has it, too"
        yield f"{folder}/replayer.c has the private key of {device.fleet_key}: {holder}"
    if device.any_client:
        yield f"{folder}/sub.mk lets any client open sessions: leave any_client out to ship it"
    if isinstance(board, Board) and board.runs_optee and device.client_policy is None:
        yield (
            f"{folder}/ta/policy.h lets root replay all that the key has signed: client_policy = FILE takes "
            "one of your own"
        )
