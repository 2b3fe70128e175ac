# SPDX-License-Identifier: BSD-2-Clause
"""What a bare-metal replayer has besides the core: port, start-up, Makefile and the crypto libraries' files."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import ClassVar

from tee_replayer.crypto import Libraries
from tee_replayer.features import operators as operator_sources
from tee_replayer.generator import gpu_firmware
from tee_replayer.generator.board_checks import Range
from tee_replayer.generator.board_fit import OnBoard, copy_description, fitted_board
from tee_replayer.generator.boards import Board
from tee_replayer.generator.device_crypto import DeviceCrypto
from tee_replayer.generator.evidence import HOOK
from tee_replayer.generator.generated_folder import filled
from tee_replayer.generator.gpu_firmware import GpuFirmware
from tee_replayer.generator.interrupts import LISTED
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.translation import MAIR, cached_bytes
from trace_format.emit import GENERATED
from trace_format.files import read_file_text
from trace_format.licence import SPDX
from trace_format.operators import Operator

HERE = Path(__file__).resolve().parents[1]
# Files of baremetal/, and of the headers made from the schema, that every board takes.
_COMMON = (
    *("startup.S", "firmware.ld", "main.c", "port.h", "port.c", "string.S"),
    *("include/limits.h", "include/string.h"),
)
_FLOATING_POINT = """
# The only part with floating point: what operators compute. Nothing of it may be inlined elsewhere.
operators.o: CFLAGS := $(filter-out -mgeneral-regs-only -flto -ffat-lto-objects,$(CFLAGS)) -ffp-contract=off
"""
_PLACES = {
    "rom": "`firmware.bin`: code and constants",
    "ram": "data and stack",
    "carveout": "traces, secure; the GPU sees it at the same addresses",
    "mailbox": "request, trace, inputs, answer, outputs: the normal world's",
}
_BOOT = {  # by how the board is flashed; without that, the port's author knows
    "": "It is put to the first of these addresses by whatever boots the board.",
    "flash": "It lies at the start of the flash (`gramophone flash OUT -o IMAGE` packs it with a trace).",
    "card": "It is a part of the boot card's stub: `gramophone flash OUT -o card.img` makes a card of it.",
    "bl31": "It takes BL31's place in the boot loader's package (`gramophone flash OUT --fip FIP -o NEW`).",
    "fit": "U-Boot's SPL loads it in BL31's place (`gramophone flash OUT --boot-firmware FOLDER -o NEW`).",
}
_HEADERS = ("gramophone_mailbox.h", "gramophone_board.h")


@dataclass(frozen=True)
class BareMetal(OnBoard):
    """The platform of a board whose EL3 the replayer has for itself."""

    in_optee: ClassVar = False

    @property
    def has_secret(self) -> bool:
        """As Platform."""
        return not self.board.sources or any(HOOK in text for text in self.board.sources.values())

    def fitted(self, options: Options) -> BareMetal:
        """As Platform."""
        board = fitted_board(self.board, options)
        if options.share_gpu:
            raise GenerateError(
                f"on {board.name} the GPU cannot be shared with the normal world: OP-TEE does that"
            )
        if options.any_client:
            raise GenerateError(f"{board.name} has no clients: only platforms with OP-TEE have sessions")
        if options.policy is not None:
            raise GenerateError(f"{board.name} takes no client policy: only the TA of OP-TEE has one")
        return replace(self, board=board)

    def write(self, options: Options, folder: Path) -> None:
        """As Platform."""
        write(self.board, folder, options.libraries, options.cryptography, has_requests=bool(options.schedule))
        if options.operators:
            add_operators(folder, options.operators)
        if options.gpu_firmware:
            add_firmware(folder, options.gpu_firmware)
        copy_description(self.board, folder)


def write(
    board: Board, folder: Path, libraries: Libraries, cryptography: DeviceCrypto, *, has_requests: bool = False
) -> None:
    """Write a board's files.

    Args:
        board: which; it has a port.
        folder: to write to; it has replayer.c and replayer.h.
        libraries: the crypto libraries, both of them.
        cryptography: what of them.
        has_requests: its mailbox takes requests with deadlines.
    """
    cryptography.write(folder, libraries)
    more = (("evidence.c", cryptography.evidence.log), ("requests.c", has_requests))
    for name in (*_COMMON, *(name for name, wanted in more if wanted)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((resources.files("baremetal") / name).read_bytes())
    for name, data in board.sources.items():
        (folder / name).write_bytes(data)
    (folder / "board.h").write_text(header(board), encoding="utf-8")
    objects = [f"{Path(name).stem}.o" for name in board.sources if not name.endswith(".h")]
    if board.mmu:
        (folder / "mmu.S").write_bytes((resources.files("baremetal") / "mmu.S").read_bytes())
        (folder / "translation.S").write_text(board.translation.source(_ranges(board)), encoding="utf-8")
        objects += ["mmu.o", "translation.o"]
    for name in _HEADERS:
        shutil.copyfile(GENERATED / name, folder / name)
    values = {"@PORT@": " ".join(objects), "@CRYPTO@": _objects(cryptography)}
    (folder / "Makefile").write_text(filled(HERE / "firmware" / "Makefile", values), encoding="utf-8")
    shutil.copyfile(HERE / "firmware" / "size.py", folder / "size.py")
    (folder / "README.md").write_text(_readme(board), encoding="utf-8")


def add_operators(folder: Path, operators: Collection[Operator]) -> None:
    """Give a board's files what it computes on the CPU.

    Args:
        folder: that `write` wrote to.
        operators: at least one.
    """
    operator_sources.write(folder, operators)
    makefile = folder / "Makefile"
    text = read_file_text(makefile)
    mark = " replayer.o crypto.o\n"
    assert mark in text
    text = text.replace(mark, mark.replace("crypto.o", "operators.o crypto.o")) + _FLOATING_POINT
    makefile.write_text(text, encoding="utf-8")


def add_firmware(folder: Path, firmware: GpuFirmware) -> None:
    """Give a board's files the firmware of its GPU's microcontroller, whole."""
    shutil.copyfile(HERE / "drivers" / "gpu_firmware.h", folder / "gpu_firmware.h")
    (folder / gpu_firmware.SOURCE).write_text(gpu_firmware.source(firmware), encoding="utf-8")
    makefile = folder / "Makefile"
    text = read_file_text(makefile)
    mark = " replayer.o "
    assert mark in text
    makefile.write_text(text.replace(mark, f"{mark}gpu_firmware.o ", 1), encoding="utf-8")


def header(board: Board) -> str:
    """The numbers of a board, as C, assembly and the linker script take them."""
    lines = []
    for name, found in _ranges(board).items():
        lines += [
            f"#define GR_{name.upper()}_BASE {found.base:#x}",
            f"#define GR_{name.upper()}_BYTES {found.bytes:#x}",
        ]
    lines.append(f"#define GR_MAILBOX_AT {board.mailbox.base:#x}")
    for name, number in board.constants.items():
        lines.append(f"#define GR_{name.upper()} {number if number < LISTED else hex(number)}")
    if board.is_silicon:
        lines.append("#define GR_SILICON 1")
    if board.mmu:
        lines += [
            "#define GR_MMU 1",
            f"#define GR_MAIR {MAIR:#x}",
            f"#define GR_TCR {board.translation.tcr:#x}",
            f"#define GR_CACHED_BYTES {cached_bytes(board.memory['carveout']):#x}",
        ]
    return (
        f"/* {SPDX} */\n"
        f"/* Numbers of the board {board.name} ({Path(board.file).name}); generated, do not edit. Others come by\n"
        " * 'board' in a device file, or 'make BOARD=HEADER', a header that defines all of these. */\n"
        "#ifndef GRAMOPHONE_BOARD_H\n#define GRAMOPHONE_BOARD_H\n\n" + "\n".join(lines) + "\n\n#endif\n"
    )


def _readme(board: Board) -> str:
    """What the folder holds, how it is built and booted, what the board owes."""
    rows = [
        f"| {name} | `{found.base:#x}` | `{found.bytes:#x}` | {_PLACES[name]} |"
        for name, found in board.memory.items()
    ]
    boot = _BOOT[board.image.kind if board.image else ""]
    if board.is_silicon:
        boot += " This port has run only in emulation so far, not on silicon."
    values = {"@TITLE@": board.title, "@PLACES@": "\n".join(rows), "@BOOT@": boot}
    return filled(HERE / "firmware" / "README.md", values)


def _ranges(board: Board) -> dict[str, Range]:
    """Ranges that the port sees."""
    found = {**board.memory, **board.devices}
    if "power" not in found:
        found["power"] = Range(0, 0)  # the GPU is always on
    return found


def _objects(cryptography: DeviceCrypto) -> str:
    files = [f"bearssl/{name}" for name in cryptography.bearssl]
    files += [f"aws-lc/{name}" for name in cryptography.aws_lc]
    return " \\\n  ".join(str(Path(name).with_suffix(".o")) for name in files)
