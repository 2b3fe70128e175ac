# SPDX-License-Identifier: BSD-2-Clause
"""The same firmware once more, from the sources of this version, by what the image says of itself."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from host_tools.audit_firmware import image as images
from host_tools.audit_firmware.image import FirmwareError, Image
from host_tools.audit_firmware.program import Program
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.audit_firmware.target import Target
from host_tools.runners.firmware import CROSS, ELF, compile_firmware
from host_tools.support import programs
from host_tools.support.version import VERSION
from signing.trust import Policy
from signing.trust_verdict import NO_ID
from tee_replayer.crypto import Libraries
from tee_replayer.generator import rollback_store
from tee_replayer.generator.board_fit import CLOCK_HOOK
from tee_replayer.generator.boards import Board
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.device import Device
from tee_replayer.generator.device_crypto import DeviceCrypto
from tee_replayer.generator.device_record import DeviceRecord
from tee_replayer.generator.evidence import HOOK, Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.profiles import Features
from trace_format.files import read_file

# An image does not say which evidence it gives, nor whether it keeps versions: these are tried until one is as
# large as it is.
_EVIDENCE = (
    Evidence(),
    Evidence(log=True),
    Evidence(log=True, hashes=True),
    Evidence(log=True, attestation=True),
    Evidence(log=True, hashes=True, attestation=True),
)
_VARIANTS = tuple(itertools.product((False, True), (False, True), _EVIDENCE))
NEAR = 64  # bytes by which a changed firmware may differ and yet be of this kind


@dataclass(frozen=True)
class Rebuilt:
    """A firmware made again.

    Attributes:
        image: what it is; it has symbols.
        tools: what made it: name -> version.
        findings: what of the audited one differs.
    """

    image: Image
    tools: dict[str, str]
    findings: tuple[FirmwareFinding, ...]


def rebuild(
    image: Image,
    target: Target,
    crypto: Libraries,
    asked: DeviceRecord | None = None,
    fleet_key: bytes = b"",
) -> Rebuilt:
    """Generate and compile the firmware that an image says it is, and compare.

    Args:
        image: which; only its own bytes are asked, no manifest beside it.
        target: what it says.
        crypto: the crypto libraries' sources.
        asked: what it was asked to be, which it does not say; None: the features are tried.
        fleet_key: that is compiled in.

    Raises:
        FirmwareError: it does not say enough, or it is OP-TEE's core.
        RunnerError: there is no compiler, or it fails.
    """
    device, profile, board = target.device, target.profile, target.board
    if device is None or profile is None or board is None:
        raise FirmwareError(f"{image.name}: cannot rebuild it: it does not name its board, GPU and key")
    if board.runs_optee:
        raise FirmwareError(f"{image.name}: OP-TEE's core is not rebuilt here; docs/AUDIT-FIRMWARE.md says how")
    size = len(_loaded(image)[1])
    best: tuple[int, Image, list[FirmwareFinding], Evidence] | None = None
    for features in [asked.features] if asked else _variants(device, board):
        with tempfile.TemporaryDirectory() as folder:
            out = generate(
                Options(
                    profile.name,
                    platform_of(board),
                    device.key,
                    crypto,
                    min_security_version=device.min_security_version,
                    device_id=asked.device_id if asked else NO_ID,
                    algorithms=asked.algorithms if asked else (),
                    decryption=Decryption(features.encryption, fleet_key),
                    **features.options,
                ),
                Path(folder) / "out",
            )
            compile_firmware(out)
            again = images.of_elf(f"{image.name}, rebuilt", read_file(out / ELF))
        found = compare(image, again)
        distance = abs(len(_loaded(again)[1]) - size)
        if best is None or distance < best[0]:
            best = distance, again, found, features.evidence
        if not found or distance < NEAR:
            break
    assert best is not None
    compiler = programs.run([f"{CROSS}gcc", "-dumpfullversion"]).stdout.strip()
    linker = programs.run([f"{CROSS}ld", "--version"]).stdout.splitlines()[0].rpartition(" ")[2]
    tools = {
        "gramophone": VERSION,
        **{name: crypto.versions[name] for name in DeviceCrypto(best[3], has_hash=True).libraries},
        f"{CROSS}gcc": compiler,
        f"{CROSS}ld": linker,
    }
    return Rebuilt(best[1], tools, tuple(best[2]))


def _variants(device: Device, board: Board) -> Iterator[Features]:
    """What may be tried: what the board provides for."""
    for clock, store, evidence in _VARIANTS:
        hooks = [HOOK] * evidence.log + [rollback_store.HOOK] * store + [CLOCK_HOOK] * clock
        has_hooks = all(any(hook in source for source in board.sources.values()) for hook in hooks)
        if has_hooks and not (clock and not isinstance(device.key, Policy)):
            yield Features(evidence=evidence, store=store, clock=clock)


def compare(image: Image, again: Image) -> list[FirmwareFinding]:
    """Functions and constants in which an image differs from one that was made again."""
    data = _loaded(image)
    right = _loaded(again)
    if data == right:
        return []
    rule = RULES["GF801"]
    if data[0] != right[0]:
        return [FirmwareFinding(rule, f"expected code at {right[0]:#x}, found it at {data[0]:#x}")]
    base, one, other = data[0], data[1], right[1]
    at = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if len(one) != len(other):
        where = f", the first difference at {base + at:#x}" if at is not None else ""
        text = f"expected {len(other)} bytes, found {len(one)}{where}"
        return [FirmwareFinding(rule, text, _name(again, base + (at or 0)), base + (at or 0))]
    found: dict[str, list[int]] = {}
    for i in range(0, len(one), 4):
        if one[i : i + 4] != other[i : i + 4]:
            found.setdefault(_name(again, base + i), []).append(base + i)
    old, new = Program(image), Program(again)
    return [
        FirmwareFinding(
            rule,
            f"{len(places)} words differ: expected {_words(new, again, places[0])}, "
            f"found {_words(old, image, places[0])}",
            name,
            places[0],
        )
        for name, places in found.items()
    ]


def _loaded(image: Image) -> tuple[int, bytes]:
    """Address and bytes of what is flashed: all of the image in one piece, without zeros at its end."""
    first = min(segment.address for segment in image.segments if segment.data)
    last = max(segment.address + len(segment.data) for segment in image.segments if segment.data)
    whole = bytearray(last - first)
    for segment in image.segments:
        at = segment.address - first
        whole[at : at + len(segment.data)] = segment.data
    return first, bytes(whole).rstrip(b"\0")


def _name(image: Image, address: int) -> str:
    """The function or object that an address lies in."""
    covering = [row for row in image.symbols if row.address <= address < row.address + row.size]
    if covering:
        return covering[0].name
    before = [row for row in image.symbols if row.address <= address and not row.size]
    return max(before, key=lambda row: row.address).name if before else ""


def _words(program: Program, image: Image, address: int) -> str:
    row = program.instruction(address)
    is_code = any(address in function.instructions for function in program.functions.values())
    return f"'{row.words}'" if row and is_code else image.read(address, 4).hex()
