# SPDX-License-Identifier: BSD-2-Clause
"""Firmware for the emulators: generated, compiled, and kept in the cache; and what an ELF says about its board."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import error as StructError

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from host_tools.families.family import profile_of
from host_tools.runners import libraries
from host_tools.runners.needs import algorithms_in, decryption_for, gpu_of, is_streamed, operators_in, secure_bytes
from host_tools.runners.replay import RunnerError
from host_tools.runners.requests import FirmwareRequest
from host_tools.support import programs
from host_tools.support.cache import cache_dir, made_once
from host_tools.support.gpu_folders import DEFAULT_GPU
from signing.trust import Anchor
from signing.trust_verdict import NO_ID
from tee_replayer.crypto import Libraries
from tee_replayer.generator import boards
from tee_replayer.generator.boards import QEMU_VIRT
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import NO_DECRYPTION, Options
from tee_replayer.generator.platforms import platform_of
from trace_format import packing
from trace_format.files import open_regular, read_file
from trace_format.operators import Operator
from trace_format.schema.trust import KeyKind

CROSS = "aarch64-linux-gnu-"
CARVEOUT_STEP = 256 << 20  # so that few firmwares serve many traces
ELF, BINARY = "firmware.elf", "firmware.bin"
MAX_FLAT_BYTES = 64 << 20  # far more than any firmware
BOARD_SECTION = ".gramophone.board"
QUEUE_SECTION = ".gramophone.queue"  # not loaded


@dataclass(frozen=True)
class Board:
    """The schema's `board`, as the firmware has it."""

    gpu_base: int
    carveout_base: int
    carveout_bytes: int
    mailbox_base: int
    mailbox_bytes: int
    gic_base: int
    uart_base: int
    gpu_spi: int
    power_base: int


@dataclass(frozen=True)
class Firmware:
    """A compiled firmware.

    Attributes:
        folder: with firmware.elf and firmware.bin.
        board: where it expects what.
        segments: (address, contents) to load; the rest of memory starts as zero.
        ram: (address, size) of its data and stack.
        entry: address of the first instruction.
        has_queue: buffers of its mailbox begin with a request (baremetal/requests.c).
    """

    folder: Path
    board: Board
    segments: tuple[tuple[int, bytes], ...]
    ram: tuple[int, int]
    entry: int
    has_queue: bool = False

    @property
    def binary(self) -> Path:
        """The image for the reset address."""
        return self.folder / BINARY


def _check_compiler() -> None:
    if shutil.which(f"{CROSS}gcc") is None:
        raise RunnerError("no aarch64 cross compiler: apt-get install gcc-aarch64-linux-gnu")


def compiler_version() -> str:
    """The first line of what the cross compiler says of itself; RunnerError: there is none."""
    _check_compiler()
    return programs.run([f"{CROSS}gcc", "--version"]).stdout.partition("\n")[0]


def compile_firmware(folder: Path, *arguments: str) -> None:
    """Run make in a generated folder, with targets or NAME=VALUE; RunnerError, with its output, when it fails."""
    _check_compiler()
    command = ["make", "-s", "-C", str(folder), f"-j{os.cpu_count() or 1}", *arguments]
    done = programs.run(command)
    if done.returncode:
        raise RunnerError(f"{folder}: the firmware does not compile:\n{(done.stderr or done.stdout).strip()}")


def check_binary(path: Path, elf: Path, stored: Sequence[tuple[int, bytes]]) -> None:
    """Refuse a firmware.bin that is not what the ELF file beside it loads.

    The one is flashed and the other is judged, by its names: a back door in the one is none in the other.

    Args:
        path: firmware.bin.
        elf: the ELF file, for the error.
        stored: where its segments are loaded, and what they hold; zeros are between them.

    Raises:
        RunnerError: they differ.
        OSError: it cannot be read.
    """
    data, right = read_file(path), _flat(stored)
    if data == right:
        return
    if right is None:
        why = f"expected pieces within {MAX_FLAT_BYTES} bytes, one after the other"
    elif len(data) != len(right):
        why = f"expected {len(right)} bytes, found {len(data)}"
    else:
        at = next(at for at, (one, other) in enumerate(zip(data, right, strict=True)) if one != other)
        why = f"offset {at:#x}: expected {right[at]:#04x}, found {data[at]:#04x}"
    raise RunnerError(
        f"{path}: not the bytes of {elf}: {why}; 'gramophone flash' packs the one and 'gramophone audit-firmware' "
        "judges the other: compile the folder again"
    )


def _flat(stored: Sequence[tuple[int, bytes]]) -> bytes | None:
    """What `objcopy -O binary` makes of segments; None: they overlap, or lie too far apart."""
    pieces = sorted(stored)
    found = bytearray()
    for address, data in pieces:
        offset = address - pieces[0][0]
        if not len(found) <= offset <= MAX_FLAT_BYTES - len(data):
            return None
        found += bytes(offset - len(found)) + data
    return bytes(found)


def load(folder: Path) -> Firmware:
    """Read a compiled firmware; RunnerError when there is none, it is a different program, or its files differ."""
    path = folder / ELF
    for file in (path, folder / BINARY):
        if not file.is_file():
            raise RunnerError(f"{file} is missing: 'make -C {shlex.quote(str(folder))}' makes it")
    found = read_elf(path)
    check_binary(folder / BINARY, path, found.segments)
    return found


def read_elf(path: Path) -> Firmware:
    """What a firmware's ELF file loads, whatever lies beside it; RunnerError when it is a different program."""
    try:
        with open_regular(path) as stream:
            elf = ELFFile(stream)
            loads = list(elf.iter_segments("PT_LOAD"))
            segments = tuple((part["p_paddr"], part.data()) for part in loads if part["p_filesz"])
            rams = [(part["p_paddr"], part["p_memsz"]) for part in loads if not part["p_filesz"]]
            section = elf.get_section_by_name(BOARD_SECTION)
            if section is None or section.data_size != packing.size_of("board"):
                raise RunnerError(f"{path}: not a Gramophone firmware: it has no section {BOARD_SECTION}")
            if len(rams) != 1:
                raise RunnerError(
                    f"{path}: not a Gramophone firmware: expected data in one segment, found {len(rams)}"
                )
            board = Board(**packing.unpack("board", section.data()))
            has_queue = elf.get_section_by_name(QUEUE_SECTION) is not None
            return Firmware(path.parent, board, segments, rams[0], int(elf.header["e_entry"]), has_queue)
    except (
        ELFError,
        ValueError,
        OSError,
        MemoryError,
        StructError,
    ) as error:  # sizes and offsets that lead nowhere
        raise RunnerError(f"{path}: not an ELF file of a firmware ({error})") from error


def build(
    key: Anchor,
    gpu: str = DEFAULT_GPU,
    min_security_version: int = 0,
    *,
    platform: str = QEMU_VIRT,
    carveout_bytes: int = 0,
    crypto: Libraries | None = None,
    operators: Collection[Operator] = (),
    algorithms: Collection[KeyKind] = (),
    device_id: bytes = NO_ID,
    decryption: Decryption = NO_DECRYPTION,
    streaming: bool = False,
) -> Firmware:
    """The firmware for a key on a board, from the cache.

    Args:
        key: whose traces it accepts.
        gpu: the virtual GPU.
        min_security_version: older traces are refused.
        platform: the board.
        carveout_bytes: the least secure memory that it must have.
        crypto: the crypto libraries' sources; None: Debian's.
        operators: what it computes on the CPU.
        algorithms, device_id, decryption, streaming: as `tee_replayer.generator.options.Options`.

    Raises:
        GenerateError: no ES256 key.
        RunnerError: it does not compile.
    """

    def write(folder: Path) -> None:
        generate(
            Options(
                profile_of(gpu).name,
                platform_of(platform),
                key,
                crypto or libraries.source(),
                min_security_version=min_security_version,
                carveout_bytes=-(-carveout_bytes // CARVEOUT_STEP) * CARVEOUT_STEP or None,
                operators=operators,
                algorithms=algorithms,
                device_id=device_id,
                decryption=decryption,
                streaming=streaming,
            ),
            folder,
        )

    return load(compiled_once(write))


def compiled_once(write: Callable[[Path], None], *arguments: str) -> Path:
    """A generated folder after make, from the cache.

    Args:
        write: generates it into the folder that it is given.
        arguments: of make.

    Raises:
        RunnerError: it does not compile; and what `write` raises.
    """
    cache = cache_dir("firmware")
    with tempfile.TemporaryDirectory(dir=cache) as name:
        fresh = Path(name) / "out"
        write(fresh)
        digest = hashlib.sha256(compiler_version().encode())
        for path in sorted(fresh.rglob("*")):
            if path.is_file():
                digest.update(str(path.relative_to(fresh)).encode() + b"\0" + read_file(path))

        def compiled(folder: Path) -> None:
            compile_firmware(fresh, *arguments)
            os.rename(fresh, folder)

        return made_once(cache / digest.hexdigest()[:16], compiled)


def firmware_for(request: FirmwareRequest, platform: str = QEMU_VIRT) -> Firmware:
    """The firmware that a request names, or else one that is made for its key on a board.

    An emulated board gets as much secure memory as the trace needs; that of a real board is given.

    Raises:
        RunnerError: as `load` or `build`.
    """
    if request.firmware:
        return load(request.firmware)
    return build(
        request.key,
        gpu_of(request.delivery, request.gpu),
        request.min_security_version,
        platform=platform,
        carveout_bytes=0 if boards.load(platform).is_silicon else secure_bytes(request.delivery),
        crypto=libraries.source(request.bearssl, request.aws_lc),
        operators=operators_in(request.delivery),
        algorithms=algorithms_in(request.delivery),
        device_id=request.device_id,
        decryption=decryption_for(request.delivery),
        streaming=is_streamed(request.delivery),
    )


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of a compiled firmware by part, as `make size` counts them.

    Raises:
        RunnerError: the report fails, or is not understood.
    """
    done = programs.run(["make", "-s", "-C", str(folder), "size"])
    parts = re.findall(r"^ *(\d+) +(\d+)  (.+)$", done.stdout, re.MULTILINE)
    total = re.search(r"^ *(\d+)  in all$", done.stdout, re.MULTILINE)
    if done.returncode or not parts or not total:
        raise RunnerError(f"make -C {folder} size: not understood: {(done.stderr or done.stdout).strip()}")
    found = {
        f"{name} {what}": int(n)
        for row in parts
        for n, what, name in ((row[0], "code", row[2]), (row[1], "constants", row[2]))
    }
    return found | {"in all, code and constants": int(total[1])}
