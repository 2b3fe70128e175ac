# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone audit-firmware`: what a compiled firmware does, by its code and constants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from host_tools.audit.findings import counts_for_json, counts_of, fails
from host_tools.audit.sarif import sarif
from host_tools.audit_firmware import allowed, target
from host_tools.audit_firmware.image import FirmwareError, Image, of_bytes, of_elf
from host_tools.audit_firmware.results import FirmwareAudited
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.generate import AWS_LC, BEARSSL, fleet_key_of
from host_tools.commands.option_rules import requires
from host_tools.flash.check import check_opened
from host_tools.flash.containers import open_image
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME
from host_tools.runners import libraries
from host_tools.runners.firmware import BINARY, ELF, check_binary
from host_tools.support.elf import is_elf
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from tee_replayer.generator import boards, device_file, device_record
from tee_replayer.generator.boards import Board
from tee_replayer.generator.device import find
from tee_replayer.generator.device_file import device_key
from tee_replayer.generator.device_record import DeviceRecord
from tee_replayer.generator.generated_folder import LIST
from trace_format import layout
from trace_format.files import read_file

_FLEET_KEY = ("the device file names one, and --rebuild compiles it in", "no device file names one")


@click.command(
    "audit-firmware",
    cls=GramophoneCommand,
    example=(
        "gramophone audit-firmware out/firmware.elf --key pub.pem\n"
        "gramophone audit-firmware card.img --device device.toml --rebuild"
    ),
)
@click.argument("image", type=FILE)
@click.option("--key", type=FILE, help="Public key (PEM) that the device must have.")
@click.option(
    "--device",
    type=FILE,
    help="Device file, or record of a generated folder, to compare with; default: device.toml beside IMAGE.",
)
@click.option("--board", "board_file", type=FILE, help="Description of your own board.")
@click.option("--rebuild", "again", is_flag=True, help="Also rebuild the firmware, and compare all bytes.")
@click.option("--fleet-key", type=FILE, help="Private key (PEM) compiled into the firmware.")
@BEARSSL
@AWS_LC
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--allow", type=FILE, help="TOML file with accepted findings, each with a reason.")
@click.option("--sarif", "sarif_file", type=FILE, help="Also write the findings as SARIF 2.1.0.")
@requires("--bearssl", "--rebuild")
@requires("--aws-lc", "--rebuild")
@requires("--fleet-key", "--rebuild")
def audit_firmware_command(
    image: Path,
    key: Path | None,
    device: Path | None,
    board_file: Path | None,
    again: bool,
    fleet_key: Path | None,
    bearssl: Path | None,
    aws_lc: Path | None,
    strict: bool,
    allow: Path | None,
    sarif_file: Path | None,
) -> Outcome[FirmwareAudited]:
    """Check a compiled firmware by its code and constants.

    Symbols are not needed. IMAGE is an ELF file (firmware, or OP-TEE's tee.elf), a firmware.bin, a compiled
    folder of `generate`, or an image of `flash`. docs/FIRMWARE-RULES.md lists the rules, and
    docs/AUDIT-FIRMWARE.md their limits. --rebuild reads operators and encryption from the device file, because
    an image does not name them. `gramophone publish sbom` writes a firmware's bill of materials.

    Exit status 1: --allow does not name an error, or with --strict a warning.
    """
    from host_tools.audit_firmware import analysis, known, rebuild, report  # --help works without capstone

    asked, secret = _asked(device, image)
    secret = fleet_key_of(fleet_key) or secret
    if again and bool(secret) != bool(asked and asked.fleet_key_id):
        raise UsageError(f"--fleet-key: {_FLEET_KEY[bool(secret)]}")
    trusted = device_key(key) if key else None
    board = boards.read(board_file) if board_file else None
    allowances = allowed.read(allow) if allow else []
    if sarif_file:
        check_writable(sarif_file)
    parts, texts = [], []
    found: list[FirmwareFinding] = []
    reasons: dict[int, str] = {}
    crypto = libraries.source(bearssl, aws_lc) if again else None
    for part, its_board in _images(image, board):
        what = target.of_image(part, its_board)
        rebuilt: rebuild.Rebuilt | None = None
        if crypto:
            with phase("rebuilding"):
                rebuilt = rebuild.rebuild(part, what, crypto, asked, secret)
            if not part.symbols and not rebuilt.findings:  # the same bytes: its names are this one's
                part = replace(part, symbols=rebuilt.image.symbols)
        with phase("auditing"):
            done = report.audit(analysis.Analysis(part, what), trusted, rebuilt, asked)
            accepted = known.accepted(done.analysis.program, done.findings)
            accepted |= allowed.accepted(done.findings, allowances)
            parts.append(report.as_data(done, accepted))
            texts.append(report.as_text(done, accepted))
        reasons |= {len(found) + index: reason for index, reason in accepted.items()}
        found += done.findings
    if sarif_file:
        log = sarif("gramophone audit-firmware", RULES, str(image), found, reasons)
        write_atomically(sarif_file, json.dumps(log, indent=1).encode() + b"\n")
    counts = counts_of(found, reasons)
    return Outcome(
        FirmwareAudited(parts, counts_for_json(counts)), "\n\n".join(texts), ok=not fails(counts, strict)
    )


def _asked(device: Path | None, image: Path) -> tuple[DeviceRecord | None, bytes]:
    """What the firmware was asked to be, and the fleet's key where a device file names its file."""
    folder = image if image.is_dir() else image.parent
    if device is None and not (folder / LIST).is_file():
        return None, b""
    file = device or folder / device_record.FILE
    if device is None and not file.exists():  # an older version generated it
        return None, b""
    if device_record.is_record(file):
        return device_record.read(file), b""
    asked = device_file.read(file)
    secret = fleet_key_of(asked.fleet_key)
    return device_record.of_options(asked.options(secret)), secret


def _images(path: Path, board: Board | None) -> Iterator[tuple[Image, Board | None]]:
    """The firmware in a file or folder, with the board that it was read for."""
    folder = path if path.is_dir() and not (path / NAME).is_file() else None
    if folder is not None:
        path = folder / ELF
    data = b"" if path.is_dir() else read_file(path)
    if is_elf(data):
        image = of_elf(str(path), data)
        if folder is not None and (folder / BINARY).is_file():  # else there is nothing to flash yet
            stored = [(segment.address, segment.data) for segment in image.segments if segment.data]
            check_binary(folder / BINARY, path, stored)
        yield image, board
        return
    try:
        opened = open_image(path)
    except ImageError:
        opened = None
    if opened is None or NAME not in opened.files:
        yield _raw(str(path), data, board)
        return
    contents = check_opened(opened, board=board).contents
    for name in contents.layout.firmware:
        if name in contents.pieces and (name == contents.place[0] or contents.device is None):
            yield _raw(f"{path}: {name}", contents.pieces[name].data, contents.board)


def _raw(name: str, data: bytes, board: Board | None) -> tuple[Image, Board | None]:
    """A firmware without headers; where it is loaded follows from the board that it names."""
    with layout.naming(name):
        device = next((device for _, device in find(data)), None)
    if device is None:
        raise FirmwareError(
            f"{name}: expected an ELF file, an image of 'gramophone flash' or a firmware.bin, found none of them"
        )
    if board is None and device.platform in boards.names():
        board = boards.load(device.platform)
    if board is None:
        raise FirmwareError(f"{name}: it is for the board {device.platform!r}: --board names its description")
    if board.runs_optee:
        return of_bytes(name, data, 0, offsets=()), board
    return of_bytes(name, data, board.memory["rom"].base), board
