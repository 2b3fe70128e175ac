# SPDX-License-Identifier: BSD-2-Clause
"""What an image holds, read from its own bytes: the manifest is made from that, and checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from host_tools.flash import fip, fit, names, signed_ta
from host_tools.flash.containers import File
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME, Missing, Piece, SignedTrace, TrustedApplication, device_fields, sha256
from host_tools.flash.names import FIP, FIT, REQUEST, TA_KEY
from host_tools.runners import mailbox
from host_tools.runners.needs import secure_bytes
from signing.delivery import Delivery
from signing.errors import KeyFileError
from signing.trust_verdict import Judge
from signing.verify import verify_by
from tee_replayer.generator.board_checks import Range
from tee_replayer.generator.boards import Board, Image
from tee_replayer.generator.device import Device, DeviceError, find
from tee_replayer.generator.translation import cached_bytes
from trace_format import policy
from trace_format.errors import TraceError


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be.

    Attributes:
        piece: where; "" for the image as a whole.
        offset: in the image, None where no single place is at fault.
        what: what is wrong, in words.
        expected, found: as words.
    """

    piece: str
    offset: int | None
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        place = f"{self.piece or 'the image'}" + (f" at {self.offset:#x}" if self.offset is not None else "")
        text = f"{place}: {self.what}"
        return f"{text}: expected {self.expected}, found {self.found}" if self.expected or self.found else text


@dataclass
class Contents:
    """What an image holds.

    Attributes:
        board: whose layout it was read with.
        pieces: files and parts of files with their bytes, by name.
        device: what the firmware was made for; None where its bytes do not say.
        place: piece that says so, and offset in the image.
        traces, trusted_applications: as in the manifest.
        findings: what contradicts itself.
    """

    board: Board
    pieces: dict[str, File] = field(default_factory=dict)
    device: Device | None = None
    place: tuple[str, int] = ("", 0)
    traces: list[SignedTrace] = field(default_factory=list)
    trusted_applications: list[TrustedApplication] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def layout(self) -> Image:
        """What the board's images are."""
        return self.board.flashed_with

    def fields(self) -> dict[str, Any]:
        """The manifest's fields that the image's bytes show; without the device's when there is none."""
        pieces = sorted(
            (
                Piece(name, piece.offset, len(piece.data), sha256(piece.data))
                for name, piece in self.pieces.items()
            ),
            key=lambda piece: (piece.offset, -piece.bytes, piece.name),
        )
        return {
            "pieces": tuple(pieces),
            "traces": tuple(self.traces),
            "trusted_applications": tuple(self.trusted_applications),
            "missing": self.missing(),
            **(device_fields(self.device) if self.device else {}),
        }

    def missing(self) -> tuple[Missing, ...]:
        """What the board needs and the image lacks."""
        return tuple(Missing(name, why) for name, why in self.layout.needed.items() if name not in self.pieces)

    def report(
        self, piece: str, what: str, offset: int | None = None, expected: object = "", found: object = ""
    ) -> None:
        """Note something that is not as it must be; `offset` counts from the piece's start."""
        if offset is not None and piece in self.pieces:
            offset += self.pieces[piece].offset
        self.findings.append(Finding(piece, offset, what, str(expected), str(found)))

    def report_error(self, piece: str, error: TraceError) -> None:
        """Note what a parser says about a piece."""
        nothing = error.expected is None
        self.report(piece, error.what, error.offset, *(("", "") if nothing else (error.expected, error.found)))


def read(files: Mapping[str, File], board: Board) -> Contents:
    """What the files of an image hold; what contradicts itself is among its findings.

    Args:
        files: all of the image.
        board: what it is for.
    """
    contents = Contents(board)
    for name, file in files.items():
        if name != NAME:
            contents.pieces[name] = file
            _take_parts(contents, name, file)
    _find_device(contents)
    for name in sorted(files):
        if name.endswith(names.TRACES):
            _read_trace(contents, name)
        elif name.endswith(".ta"):
            _read_ta(contents, name)
    _compare_copies(contents)
    return contents


def _take_parts(contents: Contents, name: str, file: File) -> None:
    if name == REQUEST:
        _take_trace(contents, name)
    if name not in (FIP, FIT):
        return
    images: Mapping[str, fip.Image | fit.Image]
    try:
        images = fip.parse(file.data).images if name == FIP else fit.parse(file.data)
    except ImageError as error:
        contents.report_error(name, error)
        return
    for part, image in images.items():
        contents.pieces[f"{name}/{part}"] = File(file.offset + image.offset, image.data)
    asked = {"bl31": "nt-fw", "fit": REQUEST}.get(contents.layout.kind, "")
    if asked in images and mailbox.trace_in(images[asked].data):
        _take_trace(contents, f"{name}/{asked}")


def _take_trace(contents: Contents, name: str) -> None:
    """The signed trace in a request."""
    request = contents.pieces[name]
    place = mailbox.trace_in(request.data)
    if place is None:
        contents.report(name, "no request of a mailbox", 0)
    elif place[1] > len(request.data):
        contents.report(name, "end of the trace", 8, f"at most {len(request.data)}", place[1])
    else:
        contents.pieces[f"{name}/trace"] = File(request.offset + place[0], request.data[place[0] : place[1]])


def _find_device(contents: Contents) -> None:
    """What the firmware was made for, from its own bytes."""
    names = contents.layout.firmware
    for name in names:
        if name not in contents.pieces:
            contents.report(name, "the piece with the replayer is not there")
            continue
        piece = contents.pieces[name]
        try:
            for offset, device in find(piece.data):
                if contents.device is not None:
                    contents.report(name, "a second device's constant", offset, "one", "another")
                contents.device, contents.place = device, (name, piece.offset + offset)
        except DeviceError as error:
            contents.report_error(name, error)
    if contents.device is None:
        contents.report(names[0], "no firmware of ours: it does not say what device it was made for")
    elif contents.device.platform != contents.board.name:
        contents.report(names[0], "platform in the firmware", None, contents.board.name, contents.device.platform)


def _read_trace(contents: Contents, name: str) -> None:
    """Check a signed trace as the device will."""
    delivery = Delivery(contents.pieces[name].data)
    device = contents.device
    try:
        trace = delivery.parse()
    except TraceError as error:
        contents.report_error(name, error)
        return
    version = trace.meta["security_version"]
    contents.traces.append(
        SignedTrace(name, trace.meta["name"], trace.trace_id.hex(), version, delivery.signed.signed_by)
    )
    if device is None:
        return
    verdict = verify_by(delivery, device.key, Judge(device.platform))
    if not verdict:
        contents.report(name, f"the device refuses this trace: {verdict.reason}")
    if trace.profile.profile_id != device.profile_id:
        expected, found = f"{device.profile_id:#018x}", f"{trace.profile.profile_id:#018x} ({trace.gpu})"
        contents.report(name, "the device refuses this trace: GPU profile", None, expected, found)
    try:
        policy.check(trace)
    except policy.PolicyError as error:
        contents.report(name, f"the device refuses this trace: {error}")
    cached = cached_bytes(Range(0, device.carveout_bytes)) if contents.board.mmu else 0
    needed = secure_bytes(delivery, cached)
    if device.carveout_bytes and needed > device.carveout_bytes:
        contents.report(
            name,
            "the device refuses this trace: secure memory",
            None,
            f"at most {device.carveout_bytes} bytes, which the device has",
            f"{needed} bytes that it needs (carveout_mib in the device file)",
        )
    if version < device.min_security_version:
        expected = f"at least {device.min_security_version}"
        contents.report(name, "the device refuses this trace: security version", None, expected, version)


def _read_ta(contents: Contents, name: str) -> None:
    """Check a signed TA as OP-TEE's core will."""
    if TA_KEY not in contents.pieces:
        contents.report(name, f"its signer is unknown: expected {TA_KEY} in the image")
        return
    try:
        ta = signed_ta.parse(contents.pieces[name].data)
        key = signed_ta.load_key(contents.pieces[TA_KEY].data, TA_KEY)
    except ImageError as error:
        contents.report_error(name, error)
        return
    except KeyFileError as error:
        contents.report(TA_KEY, str(error))
        return
    key_hash = signed_ta.key_sha256(key)
    contents.trusted_applications.append(TrustedApplication(name, str(ta.uuid), ta.version, key_hash))
    if name != f"{ta.uuid}.ta":  # OP-TEE's supplicant looks for a TA by this name
        contents.report(name, "name of the TA's file", None, f"{ta.uuid}.ta", name)
    if ta.digest != ta.computed:
        contents.report(name, "hash of the TA", signed_ta.HASH_AT, ta.computed.hex(), ta.digest.hex())
    if not ta.is_signed_by(key):
        contents.report(name, f"signature of the TA: it is not that of {TA_KEY}", signed_ta.SIGNATURE_AT)
    core = b"".join(contents.pieces[piece].data for piece in contents.layout.firmware if piece in contents.pieces)
    if signed_ta.modulus(key) not in core:
        contents.report(name, f"OP-TEE's core refuses this TA: it does not hold {TA_KEY}")


def _compare_copies(contents: Contents) -> None:
    """What the image holds twice must be equal."""
    pieces = contents.pieces
    pairs = [(f"{FIP}/{part}", name) for part, name in names.CORE.items() if name in pieces and pieces[name].data]
    for one, other in pairs:
        if one not in pieces:
            contents.report(one, f"the package does not carry {other}")
        elif pieces[one].data != pieces[other].data:
            contents.report(
                one, f"is not the same as {other}", 0, sha256(pieces[other].data), sha256(pieces[one].data)
            )
    known = [pieces[trace.file].data for trace in contents.traces]
    for name, piece in pieces.items():
        if name.endswith("/trace") and piece.data not in known:
            contents.report(name, "is none of the image's traces", 0)
