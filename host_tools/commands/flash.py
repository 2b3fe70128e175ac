# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone flash`: what a board is flashed with, packed and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from host_tools.commands.framework import FILE, STREAM, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.option_rules import requires
from host_tools.commands.streams import check_output, write
from host_tools.flash import bmap, sdcard
from host_tools.flash.check import Checked
from host_tools.flash.check import check as check_image
from host_tools.flash.containers import FIRMWARE
from host_tools.flash.contents import Finding
from host_tools.flash.manifest import Manifest, sha256
from host_tools.flash.names import ARMSTUB, CERTIFICATE, FIP, TA_KEY
from host_tools.flash.pack import Sources, pack
from host_tools.flash.signed_ta import PUBLISHED_KEY
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.results import Result, one_of
from tee_replayer.generator import boards
from tee_replayer.generator.device_file import device_key
from trace_format.errors import printable

SHOWN = 16  # digits of a hash in the text; --json has all


class CheckedImage(Result):
    """What is in an image.

    Attributes:
        block_map: Its block map, where a file lies beside it.
        not_derived: Pieces that follow from nothing else in the image.
    """

    file: str
    kind: Annotated[str, one_of("archive", "folder", "flash", "card")]
    block_map: str | None
    manifest_sha256: str
    manifest: Manifest | None
    not_derived: Sequence[str]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class _Written:
    file: str
    block_map: str | None
    manifest_sha256: str


@dataclass(frozen=True)
class Packed(Manifest, _Written):
    """An image that was packed: the fields of its manifest."""


@click.command(
    "flash",
    cls=GramophoneCommand,
    example=(
        "gramophone flash out -o card.img --trace net.sgtr --boot-firmware /boot/firmware\n"
        "gramophone flash --check card.img --key pub.pem"
    ),
)
@click.argument("out", type=FILE, required=False)
@click.option("-o", "--output", type=FILE, help="Image to write.")
@click.option("--trace", "traces", type=FILE, multiple=True, help="Signed trace to include; repeatable.")
@click.option("--fip", type=FILE, help="TF-A's firmware image package for the board (optee, hikey960).")
@click.option("--core", type=FILE, help="Folder with OP-TEE's core, built for the board (optee).")
@click.option("--ta-signing-key", type=FILE, help="Private key (PEM, RSA) to sign the TA with (optee).")
@click.option("--boot-firmware", type=FILE, help="Folder with the board's own boot files (rpi4, rk3576).")
@click.option(
    "--kernel", type=FILE, help=("Kernel to start after the replay (rpi4); default: a kernel that waits.")
)
@click.option("--initrd", type=FILE, help="Initial RAM disk of --kernel; it gets the answer as a file (rpi4).")
@click.option(
    "--check",
    "checked",
    type=FILE,
    help="Check this image instead of writing one: a file, device or unpacked folder.",
)
@click.option("--key", type=FILE, help="Public key (PEM) that the device must have. Requires --check.")
@click.option("--board", type=FILE, help="Description of your own board. Requires --check.")
@requires("--initrd", "--kernel")
def flash_command(
    out: Path | None,
    output: Path | None,
    traces: tuple[Path, ...],
    fip: Path | None,
    core: Path | None,
    ta_signing_key: Path | None,
    boot_firmware: Path | None,
    kernel: Path | None,
    initrd: Path | None,
    checked: Path | None,
    key: Path | None,
    board: Path | None,
) -> Outcome[Packed | CheckedImage]:
    """Pack a generated folder into an image, or check an image.

    OUT is a folder of `generate`, compiled if it is for bare metal. The image is an SD card for rpi4, a flash
    image for qemu-virt, and an archive for optee, hikey960 and rk3576. Each has a manifest. IMAGE.bmap, beside
    a card's image, lets bmaptool write only the used blocks.

    Exit status of --check: 1 if part of the image is wrong, 2 if FILE is no image of `flash`.
    """
    sources = Sources(traces, fip, core, ta_signing_key, boot_firmware, kernel, initrd)
    if checked is not None:
        if out is not None or output is not None or sources != Sources():
            raise UsageError("--check takes only an image, --key and --board")
        with phase("checking"):
            found = check_image(checked, device_key(key) if key else None, boards.read(board) if board else None)
        _warn(found.manifest)
        return Outcome(_checked_data(checked, found), _checked_text(checked, found), found.ok)
    if out is None or output is None or key is not None or board is not None:
        raise UsageError("expected either OUT -o IMAGE, or --check IMAGE [--key KEY] [--board FILE]")
    check_output(output)
    with phase("packing"):
        data, manifest = pack(out, sources)
    block_map = _write(output, data)
    _warn(manifest)
    written = Packed(
        file=str(output),
        block_map=str(block_map) if block_map else None,
        manifest_sha256=sha256(manifest.encode()),
        **vars(manifest),
    )
    lines = [
        f"{output}: {len(data)} bytes for {manifest.platform}, {len(manifest.pieces)} pieces",
        *([f"block map        {block_map}"] if block_map else []),
        *_text(manifest),
        *_firmware(manifest),
        f"manifest         sha256 {written.manifest_sha256}",
    ]
    return Outcome(written, "\n".join(lines))


def _write(output: Path, data: bytes) -> Path | None:
    """Write an image, and a card's block map, whose path is returned; no old map ever lies beside a new image."""
    block_map = bmap.beside(output) if output != STREAM and sdcard.is_card(data) else None
    if block_map:
        check_writable(block_map)
        block_map.unlink(missing_ok=True)
    write(output, data)
    if block_map:
        write_atomically(block_map, bmap.encode(data))
    return block_map


def _warn(manifest: Manifest | None) -> None:
    """Warn of what must not be overlooked."""
    if manifest is None:
        return
    if any(ta.key_sha256 == PUBLISHED_KEY for ta in manifest.trusted_applications):
        warn(
            f"{TA_KEY} is the key that OP-TEE publishes: anybody can sign TAs for this core; see --ta-signing-key"
        )
    if any(piece.name.startswith(f"{FIP}/") and piece.name.endswith(CERTIFICATE) for piece in manifest.pieces):
        warn(f"{FIP} has certificates, of its old contents: TF-A's cert_create makes new ones")


def _text(manifest: Manifest) -> list[str]:
    rows = [
        ("device", f"{manifest.gpu} (profile {manifest.profile_id}), trusts {manifest.key_id}"),
        ("", f"traces of security version {manifest.min_security_version} or newer"),
    ]
    rows += [
        ("trace", f"{t.file}: {t.name!r}, security version {t.security_version}, signed by {t.key_id}")
        for t in manifest.traces
    ]
    rows += [
        ("TA", f"{ta.file}: version {ta.version}, signed by {ta.key_sha256[:SHOWN]}...")
        for ta in manifest.trusted_applications
    ]
    rows += [("missing", f"{missing.name}: {missing.why}") for missing in manifest.missing]
    pieces = [f"{p.offset:#12x} {p.bytes:10}  {p.sha256[:SHOWN]}  {p.name}" for p in manifest.pieces]
    return [f"{name:16} {text}" for name, text in rows] + [
        f"{'offset':>12} {'bytes':>10}  {'sha256':{SHOWN}}  piece",
        *pieces,
    ]


def _firmware(manifest: Manifest) -> list[str]:
    """The firmware's hash in full, as `gramophone audit-firmware` prints it of the same bytes."""
    named = (FIRMWARE, ARMSTUB)
    return [f"{p.name:16} sha256 {p.sha256}" for p in manifest.pieces if p.name in named]


def _checked_data(path: Path, found: Checked) -> CheckedImage:
    return CheckedImage(
        file=str(path),
        kind=found.kind,
        block_map=str(found.block_map) if found.block_map else None,
        manifest_sha256=found.manifest_sha256,
        manifest=found.manifest,
        not_derived=found.given,
        findings=found.findings,
    )


def _checked_text(path: Path, found: Checked) -> str:
    if not found.ok:
        return "\n".join(
            [f"{path}: NOT what it must be:", *(f"  {printable(str(row))}" for row in found.findings)]
        )
    assert found.manifest is not None  # otherwise there is a finding
    lines = [f"{path}: {found.kind} for {found.manifest.platform}; all of it is what it must be"]
    if found.block_map:
        lines.append(f"block map        {found.block_map}, of this image")
    lines += _text(found.manifest)
    lines.append(f"{'not derived':16} {', '.join(found.given)}: compare their hashes with those of their sources")
    lines += _firmware(found.manifest)
    return "\n".join([*lines, f"manifest         sha256 {found.manifest_sha256}"])
