# SPDX-License-Identifier: BSD-2-Clause
"""What of an image follows from the rest of it: made when an image is packed, and made again when one is checked.

Parts that follow from nothing else (firmware, traces, a kernel, the board owner's files) are `Given`. All other
files, their order, and the container are made of them, here and by the builders of `pack`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from host_tools.flash import fip, fit, names, ramdisk, signed_ta
from host_tools.flash.containers import FIRMWARE
from host_tools.flash.errors import FlashError
from host_tools.flash.names import FIP, FIRMWARE_PART, FIT, IDBLOADER, REQUEST
from host_tools.runners import mailbox
from host_tools.runners.buffers import bind
from host_tools.support.tensors import without_value
from signing.delivery import Delivery
from tee_replayer.generator.boards import Board, Image
from trace_format.errors import listed

Files = dict[str, bytes]
TRACE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}" + re.escape(names.TRACES))
_SCRIPT = (
    "#!/bin/sh -e\n"
    "# With the board in fastboot mode. What its owner has to bring is in gramophone.json, under 'missing'.\n"
    'cd "$(dirname "$0")"\n'
    f"fastboot flash fip {FIP}\n"
)
# Where Rockchip's boot ROM and U-Boot's SPL look on a card, in sectors of 512 bytes: U-Boot doc/board/rockchip.
_CARD_SCRIPT = (
    "#!/bin/sh -e\n"
    "# Writes a card: flash.sh /dev/SDCARD. What its owner has to bring is in gramophone.json, under 'missing'.\n"
    'cd "$(dirname "$0")"\n'
    f'dd if={IDBLOADER} of="$1" seek=64 conv=notrunc,fsync\n'
    f'dd if={FIT} of="$1" seek=16384 conv=notrunc,fsync\n'
)


@dataclass(frozen=True)
class Given:
    """The parts of an image that follow from nothing else.

    Attributes:
        files: name -> contents; traces in the order in which they lie in the image.
        package: images of TF-A's package, by fiptool's names.
        flags: of that package.
        has_queue: the firmware's mailbox begins with a request (host_tools/runners/firmware.py).
    """

    files: Mapping[str, bytes]
    package: Mapping[str, bytes] = field(default_factory=dict)
    flags: int = 0
    has_queue: bool = False

    @property
    def traces(self) -> Files:
        """Those of the files that are traces."""
        return {name: data for name, data in self.files.items() if TRACE_NAME.fullmatch(name)}

    @property
    def names(self) -> list[str]:
        """Names of all pieces that are given, but for the kernel that only waits, which is ours."""
        files = [name for name, data in self.files.items() if (name, data) != (names.KERNEL, names.PARKED)]
        return [*files, *(f"{FIP}/{name}" for name in self.package)]


@dataclass(frozen=True)
class _Kind:
    """The files of a kind of image.

    Attributes:
        needed, possible: of those that are given, besides traces.
        derived: those that `complete` may make.
        make: makes all files.
    """

    needed: tuple[str, ...]
    possible: tuple[str, ...]
    derived: tuple[str, ...]
    make: Callable[[Board, Given], Files]


def complete(board: Board, given: Given) -> Files:
    """All files of an image but the manifest, in the order in which they lie there.

    Raises:
        FlashError: a part that is needed is missing, or nothing can be made of one.
        GramophoneError: a part is not what it should be.
    """
    kind = _KINDS[board.flashed_with.kind]
    missing = [name for name in kind.needed if name not in given.files]
    if missing:
        raise FlashError(f"parts of the image: expected {listed(missing)}, found none")
    return kind.make(board, given)


def given_in(board: Board, files: Mapping[str, bytes]) -> Given:
    """The parts of an image's files that follow from nothing else; ImageError where its package is none."""
    image = board.flashed_with
    kept = {name: data for name, data in files.items() if is_known(image, name)}
    given = {name: data for name, data in kept.items() if name not in _KINDS[image.kind].derived}
    if FIT in kept:
        parts = {name: part.data for name, part in fit.parse(kept[FIT]).items()}
        given[FIRMWARE] = parts.get(FIRMWARE_PART, b"")
        return Given(given, has_queue=mailbox.begins_request(parts.get(REQUEST, b"")))
    if FIP not in kept:
        return Given(given, has_queue=mailbox.begins_request(kept.get(REQUEST, b"")))
    found = fip.parse(files[FIP])
    traces = Given(given).traces
    made = names.CORE if image.kind == "optee" else {"nt-fw"} if traces else ()
    package = {name: part.data for name, part in found.images.items() if name not in made and part.data}
    if image.kind == "bl31":
        given[FIRMWARE] = package.pop("soc-fw", b"")
    asked = found.images["nt-fw"].data if "nt-fw" in found.images else b""
    return Given(given, package, found.flags, has_queue=mailbox.begins_request(asked))


def is_known(image: Image, name: str) -> bool:
    """Whether images of this kind have a file of this name; the manifest is not asked for."""
    kind = _KINDS[image.kind]
    return name in (*kind.needed, *kind.possible, *kind.derived) or TRACE_NAME.fullmatch(name) is not None


def request_for(board: Board, traces: Mapping[str, bytes], has_queue: bool) -> bytes:
    """What lies at the mailbox's address for the first trace to be replayed with its recorded inputs.

    Raises:
        FlashError: a slot has no value, or the request does not fit.
    """
    name, signed = next(iter(traces.items()))
    trace = Delivery(signed).trace
    if trace is not None and (open_slots := without_value(trace)):
        raise FlashError(
            f"{name}: no value for {listed(open_slots)}, and nothing on this board gives one "
            "('gramophone build --keep-inputs' keeps recorded inputs)"
        )
    room = board.memory["mailbox"].bytes
    if trace is not None and (size := sum(slot.dense_bytes for slot in trace.slots)) > room:
        raise FlashError(f"{name}: the mailbox's memory: expected at most {room} bytes, found slots of {size}")
    buffers = bind(trace, {})
    heads = mailbox.heads_of(trace, has_queue)
    size = mailbox.layout(signed, buffers, heads=heads).size
    if size > room:
        raise FlashError(f"{name}: the mailbox's memory: expected at least {size} bytes, found {room}")
    memory = bytearray(size)
    mailbox.request(memoryview(memory), signed, buffers, 1, heads=heads)
    return bytes(memory)


def _flash(_board: Board, given: Given) -> Files:
    return {FIRMWARE: given.files[FIRMWARE], **given.traces}


def _card(board: Board, given: Given) -> Files:
    files = {names.ARMSTUB: given.files[names.ARMSTUB]}
    lines = list(names.CARD_LINES)
    if given.traces:
        files[REQUEST] = request_for(board, given.traces, given.has_queue)
    disk, where = _ramdisk(board, files.get(REQUEST), given.files.get(names.INITRD))
    files |= disk
    if disk or given.traces:
        lines += names.mailbox_lines(where)
    files[names.KERNEL] = given.files[names.KERNEL]
    lines += names.KERNEL_LINES
    files |= {name: given.files[name] for name in names.BOOT_FIRMWARE if name in given.files}
    return {names.CONFIG: "\n".join(lines).encode(), **files, **given.traces}


def _ramdisk(board: Board, request: bytes | None, initrd: bytes | None) -> tuple[Files, str]:
    """Files of a kernel's initial RAM disk besides the request, and what config.txt has loaded where.

    The request is the first of several archives then, as a file, so Linux can read the answer.

    Raises:
        FlashError: they do not fit the mailbox's memory.
    """
    mailbox = board.memory["mailbox"]
    if initrd is None:
        return {}, f"{REQUEST} {mailbox.base:#010x}"
    if request is None:
        return {names.INITRD: initrd}, f"{names.INITRD} followkernel"
    if (size := len(request) + len(initrd)) > mailbox.bytes:
        raise FlashError(
            f"{names.INITRD}: memory for it and the request: expected at most {mailbox.bytes} bytes, found {size}"
        )
    head = ramdisk.head(request)
    all_names = f"{names.REQUEST_HEAD},{REQUEST},{names.INITRD}"
    return {
        names.REQUEST_HEAD: head,
        names.INITRD: initrd,
    }, f"{all_names} {mailbox.base - len(head):#010x}"


def _bl31(board: Board, given: Given) -> Files:
    images = {**given.package, "soc-fw": given.files[FIRMWARE]}
    if given.traces:
        images["nt-fw"] = request_for(board, given.traces, given.has_queue)
    package = fip.build(images, given.flags)
    return {FIP: package, names.FLASH_SCRIPT: _SCRIPT.encode(), **given.traces}


def _fit(board: Board, given: Given) -> Files:
    images = {FIRMWARE_PART: fit.Image(given.files[FIRMWARE], board.memory["rom"].base, is_firmware=True)}
    if given.traces:
        request = request_for(board, given.traces, given.has_queue)
        images[REQUEST] = fit.Image(request, board.memory["mailbox"].base)
    loader = {IDBLOADER: given.files[IDBLOADER]} if IDBLOADER in given.files else {}
    return {FIT: fit.build(images), **loader, names.FLASH_SCRIPT: _CARD_SCRIPT.encode(), **given.traces}


def _optee(_board: Board, given: Given) -> Files:
    core = {name: given.files[name] for name in names.CORE.values()}
    images = {**given.package, **{part: core[name] for part, name in names.CORE.items()}}
    key = signed_ta.load_key(given.files[names.TA_KEY], names.TA_KEY)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    stage = {names.BL1: given.files[names.BL1]} if names.BL1 in given.files else {}
    trusted = {names.TA: given.files[names.TA], names.TA_KEY: pem}
    return {FIP: fip.build(images, given.flags), **core, **stage, **trusted, **given.traces}


_KINDS = {
    "flash": _Kind((FIRMWARE,), (), (), _flash),
    "card": _Kind(
        (names.ARMSTUB, names.KERNEL),
        (*names.BOOT_FIRMWARE, names.INITRD),
        (names.CONFIG, REQUEST, names.REQUEST_HEAD),
        _card,
    ),
    "bl31": _Kind((FIRMWARE,), (), (FIP, names.FLASH_SCRIPT), _bl31),
    "fit": _Kind((FIRMWARE,), (IDBLOADER,), (FIT, names.FLASH_SCRIPT), _fit),
    "optee": _Kind((*names.CORE.values(), names.TA, names.TA_KEY), (names.BL1,), (FIP,), _optee),
}
