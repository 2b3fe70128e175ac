# SPDX-License-Identifier: BSD-2-Clause
"""Packs what `gramophone generate` wrote for what a platform is flashed with, the manifest included."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from host_tools.flash import contents, fip, names, sdcard
from host_tools.flash.containers import FIRMWARE, File, pack_archive, pack_flash, take_apart
from host_tools.flash.derive import TRACE_NAME, Files, Given, complete
from host_tools.flash.errors import FlashError
from host_tools.flash.manifest import NAME, Manifest, sha256
from host_tools.flash.names import CONTAINERS
from host_tools.runners import firmware as firmwares
from host_tools.runners.optee import build as optee
from host_tools.runners.optee.images import compile_normal_world, read_board
from host_tools.runners.optee.ta import build_ta, public_part
from host_tools.support.version import TOOL
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.board_checks import Range
from tee_replayer.generator.boards import Board
from trace_format import layout
from trace_format.files import read_file, read_file_text

BUILDERS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "archive": pack_archive,
    "flash": pack_flash,
    "card": sdcard.write,
}
MAX_ROUNDS = 4  # the first without a manifest, the second with it; sizes of the image follow
# In the head of replayer.h, after the licence.
_NOTICE = re.compile(r"^ \* Gramophone replayer for .+ on ([\w-]+); generated", re.MULTILINE)


@dataclass(frozen=True)
class Sources:
    """What an image is made of besides the generated folder; what its platform cannot use is an error.

    Attributes:
        traces: signed traces.
        fip: TF-A's firmware image package of the board.
        core: folder with OP-TEE's core as built for the board, with the pseudo-TA in it.
        ta_signing_key: private key (PEM, RSA) that the TA is signed with.
        boot_firmware: folder with what the boot chain begins with: Raspberry Pi's files, or idbloader.img.
        kernel: what the firmware enters at EL2 once it has served its request; without it one that waits forever.
        initrd: that kernel's initial RAM disk.
    """

    traces: Sequence[Path] = ()
    fip: Path | None = None
    core: Path | None = None
    ta_signing_key: Path | None = None
    boot_firmware: Path | None = None
    kernel: Path | None = None
    initrd: Path | None = None


def pack(out: Path, sources: Sources) -> tuple[bytes, Manifest]:
    """The image for a generated folder.

    Args:
        out: what `gramophone generate` wrote, after make where it is bare metal.
        sources: what else goes into it.

    Returns:
        The image, and the manifest in it.

    Raises:
        FlashError: no such folder, something that does not fit the platform, or a trace that the device refuses.
        GramophoneError: a file is not what it should be, or something cannot be built.
    """
    board = board_of(out)
    image = board.flashed_with
    for name in ("fip", "core", "ta_signing_key", "boot_firmware", "kernel", "initrd"):
        if getattr(sources, name) is not None and name not in image.options:
            raise FlashError(f"--{name.replace('_', '-')} cannot be used for the platform {board.name}")
    traces = _traces(sources.traces)
    if sources.boot_firmware is not None and not sources.boot_firmware.is_dir():
        raise FlashError(f"{sources.boot_firmware}: expected a folder with the board's boot files")
    if board.runs_optee and sources.core is None:
        _check_staging(traces, read_board(out).staging_bytes)
    given = _PACKERS[image.kind](board, out, sources)
    return _with_manifest(board, complete(board, replace(given, files={**given.files, **traces})))


def board_of(out: Path) -> Board:
    """The board that a folder was generated for; FlashError when it was not."""
    header = out / "replayer.h"
    try:
        found = _NOTICE.search(read_file_text(header))
    except OSError as error:
        raise FlashError(f"{header}: {error.strerror}: 'gramophone generate' writes it") from None
    if found is not None and (description := out / f"{found[1]}.toml").is_file():
        return boards.read(description)
    if found is None or found[1] not in boards.names():
        raise FlashError(f"{header}: expected a head with one of the platforms {', '.join(boards.names())}")
    return boards.load(found[1])


def _traces(paths: Sequence[Path]) -> Files:
    found: Files = {}
    for path in paths:
        name = f"{path.stem}{names.TRACES}"
        if not TRACE_NAME.fullmatch(name):
            raise FlashError(f"{path}: name of the file: expected at most 64 letters, digits, '.', '_' and '-'")
        if name.lower() in (other.lower() for other in found):
            raise FlashError(f"{path}: there are two traces called {name}")
        found[name] = read_file(path)
    return found


def _check_staging(traces: Files, room: int) -> None:
    """The pseudo-TA's staging area takes the signed trace, then all slots; how large it is, is not in the core."""
    for name, data in traces.items():
        trace = Delivery(data).trace
        needed = max(len(data), sum(slot.dense_bytes for slot in trace.slots) if trace else 0)
        if needed > room:
            raise FlashError(
                f"{name}: the device refuses this trace: the staging area, a quarter of the carve-out: expected "
                f"at most {room} bytes, found {needed} (carveout_mib in the device file)"
            )


def _flash(_board: Board, out: Path, _sources: Sources) -> Given:
    return Given({FIRMWARE: read_file(firmwares.load(out).binary)})


def _card(board: Board, out: Path, sources: Sources) -> Given:
    firmware = _at_the_boards_mailbox(board, out)
    files = {names.ARMSTUB: read_file(firmware.binary)}
    files[names.KERNEL] = read_file(sources.kernel) if sources.kernel else names.PARKED
    if sources.initrd:
        files[names.INITRD] = read_file(sources.initrd)
    for name in names.BOOT_FIRMWARE:
        if sources.boot_firmware is not None and (sources.boot_firmware / name).is_file():
            files[name] = read_file(sources.boot_firmware / name)
    return Given(files, has_queue=firmware.has_queue)


def _bl31(board: Board, out: Path, sources: Sources) -> Given:
    firmware = _at_the_boards_mailbox(board, out)
    files = {FIRMWARE: _rom_of(board, firmware)}
    return replace(_with_package(sources, files, {}), has_queue=firmware.has_queue)


def _rom_of(board: Board, firmware: firmwares.Firmware) -> bytes:
    """A firmware that is loaded in place of TF-A's BL31."""
    data, where, rom = read_file(firmware.binary), firmware.segments[0][0], board.memory["rom"]
    if where != rom.base or len(data) > rom.bytes:
        raise FlashError(
            f"{firmware.binary}: expected TF-A's BL31, at most {rom.bytes} bytes for "
            f"{rom.base:#x}, found {len(data)} bytes for {where:#x}"
        )
    return data


def _fit(board: Board, out: Path, sources: Sources) -> Given:
    firmware = _at_the_boards_mailbox(board, out)
    files = {FIRMWARE: _rom_of(board, firmware)}
    if sources.boot_firmware is not None and (loader := sources.boot_firmware / names.IDBLOADER).is_file():
        files[names.IDBLOADER] = read_file(loader)
    return Given(files, has_queue=firmware.has_queue)


def _optee(_board: Board, out: Path, sources: Sources) -> Given:
    key = sources.ta_signing_key or optee.ta_dev_kit() / optee.TA_KEY
    trusted = public_part(key)
    core = sources.core or optee.core_of(out, trusted if sources.ta_signing_key else b"")
    files = {name: _read(core / name) for name in names.CORE.values()}
    images = {}
    if sources.core is None and sources.fip is None:  # of QEMU's machine "virt", which runs as it is
        stages = {name: read_file(optee.tfa_build() / name) for name in optee.TFA_BINARIES}
        files[names.BL1] = stages[names.BL1]
        images = {"tb-fw": stages["bl2.bin"], "soc-fw": stages["bl31.bin"]}
        images["nt-fw"] = read_file(compile_normal_world())
    ta = build_ta(out / "ta", sources.ta_signing_key)
    return _with_package(sources, {**files, ta.name: read_file(ta), names.TA_KEY: trusted}, images)


_PACKERS: dict[str, Callable[[Board, Path, Sources], Given]] = {
    "flash": _flash,
    "card": _card,
    "bl31": _bl31,
    "fit": _fit,
    "optee": _optee,
}


def _at_the_boards_mailbox(board: Board, out: Path) -> firmwares.Firmware:
    """A firmware whose mailbox lies where the board has it: whoever checks the image has nothing else."""
    firmware = firmwares.load(out)
    found = firmware.board.mailbox_base, firmware.board.mailbox_bytes
    mailbox = board.memory["mailbox"]
    if found != (mailbox.base, mailbox.bytes):
        raise FlashError(
            f"{firmware.folder}: the mailbox: expected {mailbox} of {board.file}, found {Range(*found)}: "
            "'board' in the device file names a board with another one"
        )
    return firmware


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise FlashError(f"{path}: {error.strerror}: expected OP-TEE's core, as its build names it") from None


def _with_package(sources: Sources, files: Files, images: Files) -> Given:
    """With the board's own package, where there is one, and these images in it."""
    if sources.fip is None:
        return Given(files, images)
    with layout.naming(str(sources.fip)):
        board = fip.parse(read_file(sources.fip))
    return Given(files, {name: image.data for name, image in board.images.items()} | images, board.flags)


def _in_piece(held: contents.Contents) -> contents.Finding:
    """The first finding, by its offset in the piece: there is no image yet to look into."""
    first = held.findings[0]
    if first.offset is None or first.piece not in held.pieces:
        return first
    return replace(first, offset=first.offset - held.pieces[first.piece].offset)


def _with_manifest(board: Board, files: Files) -> tuple[bytes, Manifest]:
    """The image of these files and their manifest, which lies last and so moves no other file."""
    build = BUILDERS[CONTAINERS[board.flashed_with.kind]]
    text = b""
    for _ in range(MAX_ROUNDS):
        image = build({**files, NAME: text})
        opened = take_apart(image)
        held = contents.read(opened.files, board)
        if held.findings:
            raise FlashError(str(_in_piece(held)))
        manifest = Manifest(tool=TOOL, image_bytes=len(image), image_sha256="0" * 64, **held.fields())
        if manifest.encode() == text:
            break
        text = manifest.encode()
    else:
        raise FlashError(f"{board.name}: the manifest's size does not settle")
    place = opened.files[NAME]
    manifest = replace(manifest, image_sha256=image_sha256(image, place))
    return image[: place.offset] + manifest.encode() + image[place.offset + len(text) :], manifest


def image_sha256(image: bytes, manifest: File) -> str:
    """SHA-256 of an image with the manifest's own bytes taken as zeros, in hex."""
    end = manifest.offset + len(manifest.data)
    return sha256(image[: manifest.offset] + bytes(len(manifest.data)) + image[end:])
