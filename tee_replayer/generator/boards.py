# SPDX-License-Identifier: BSD-2-Clause
"""Boards and environments that a replayer can be generated for, each described by a file NAME.toml.

Those of the project are baremetal/boards/NAME.toml; any other file describes a board of one's own. Its keys:

    like         name of a board of the project: the file says only what differs from it
    title        in words
    is_silicon   a real board, which the port has not met
    mmu          the firmware runs with MMU and caches on (docs/adr/0023-mmu.md); left out, with both off
    sources      files of the port, C, assembly and headers: they lie beside the file, or are the project's
                 (baremetal/); left out, the board runs OP-TEE, and the replayer is a pseudo-TA
    [memory]     ranges { base, bytes } of physical addresses, in bytes:
                     rom       where the firmware's code and constants lie
                     ram       its data and stack
                     carveout  secure memory for traces; the GPU sees it at the same addresses
                     mailbox   the mailbox and all that it points to: memory of the normal world
                 OP-TEE has only a carveout
    [devices]    ranges of registers: gpu; gic, the distributor of a GICv2; uart, a PL011 or an 8250; and what else
                 the port uses. On a board that has to switch its GPU on, power is the block that does.
                 OP-TEE takes gpu, gic and firewall, which says which world has the GPU
    [reserved]   ranges where no memory of ours may lie, by any name
    [constants]  numbers: gpu_spi, the shared peripheral interrupt of the GPU's first line, or a list of those of
                 all lines, in the order of the GPU's profile; uart_timeout_us, how long the UART may take for a
                 character; uart_8250, 1 if the UART is an 8250 with registers of 4 bytes (left out: a PL011); aes,
                 1 if all cores have the Armv8 AES instructions, 0 if none has (left out: the core is asked, and
                 the firmware has code for both); and what else the port uses
    [gpu]        of a board that has one certain GPU: profile; virtual, the virtual GPU that stands for it in
                 emulation (left out: that of the profile); power_model, module of host_tools/runners/power with a
                 model of what switches it (left out: it is always on)
    [image]      what the board is flashed with; left out, it is not flashed by us. kind; firmware, the pieces that
                 hold the replayer, in the order in which they lie in memory; options of `gramophone flash` for it
    [image.needed]  piece without which the board does not boot = what it is; "partition ..." is never in an image

The port sees a range as GR_NAME_BASE and GR_NAME_BYTES, a constant as GR_NAME, in capitals. A name that no file of
the port uses is an error, as is an unknown key, and a range that overlaps another one. So is a mailbox of which an
address is one bit from one of rom, ram or carveout: a flipped bit of a pointer would lead to the normal world's
memory. With an MMU that cannot be, for the firmware finds the mailbox at an address of its own (translation.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from tee_replayer.generator.board_checks import (
    PHYSICAL_BITS,
    BoardError,
    Range,
    check_bits,
    check_files,
    check_ranges,
    check_used,
)
from tee_replayer.generator.interrupts import MOST_LINES, packed
from tee_replayer.generator.translation import Tables, checked, regions, seen_far
from trace_format import limits
from trace_format.files import read_file
from trace_format.toml_table import Table, loads, over

QEMU_VIRT, OPTEE = "qemu-virt", "optee"  # those that there are complete emulated machines for
IMAGE_KINDS = ("flash", "card", "bl31", "fit", "optee")  # how they are packed: host_tools/flash
IMAGE_OPTIONS = ("fip", "core", "ta_signing_key", "boot_firmware", "kernel", "initrd")
SECURE = ("rom", "ram", "carveout")
MEMORY = (*SECURE, "mailbox")
ADDRESSES = 1 << PHYSICAL_BITS
LAST_SPI = 987
LIMITS = {"gpu_spi": LAST_SPI + 1, "uart_8250": 2}  # of constants that any port takes
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,15}")  # 16 characters: the device's constant has no room for more
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.[chS]")


@dataclass(frozen=True)
class BoardGpu:
    """The GPU of a real board: names of its profile, its virtual GPU, and its model of power or ""."""

    profile: str
    virtual: str
    power_model: str = ""


@dataclass(frozen=True)
class Image:
    """What the board is flashed with: the module's text says what the fields mean."""

    kind: str
    firmware: tuple[str, ...]
    options: tuple[str, ...] = ()
    needed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Board:
    """A board, or an environment on boards.

    Attributes:
        name: as `platform` in a device file takes it.
        file: that describes it.
        is_own: one of the project.
        sources: of the port, by name; none: it runs OP-TEE.
        memory, devices, reserved: ranges of addresses, by name.
        constants: numbers that the port takes, by name.
        gpu_lines: how many lines gpu_spi lists; 0: it has the first one's interrupt.
        mmu: the firmware turns MMU and caches on.
        gpu: None: it takes any GPU.
        image: None: it is not flashed by us.
    """

    name: str
    file: str
    is_own: bool
    title: str
    is_silicon: bool
    sources: Mapping[str, bytes]
    memory: Mapping[str, Range]
    devices: Mapping[str, Range]
    reserved: Mapping[str, Range]
    constants: Mapping[str, int]
    gpu_lines: int
    mmu: bool
    gpu: BoardGpu | None
    image: Image | None

    @property
    def notice(self) -> str:
        """Line of the generated files' head; empty for an emulated machine."""
        return " *   port              has run only in emulation, not on silicon\n" if self.is_silicon else ""

    @property
    def flashed_with(self) -> Image:
        """Its image; BoardError where the description has none."""
        if self.image is None:
            raise BoardError("[image] is missing: it says what the board is flashed with", file=self.file)
        return self.image

    @property
    def runs_optee(self) -> bool:
        """Whether the replayer is a part of OP-TEE there."""
        return not self.sources

    def with_carveout(self, size: int) -> Board:
        """The same board with a carve-out of another size, in bytes; BoardError when there is no room for it."""
        carveout = Range(self.memory["carveout"].base, size)
        board = replace(self, memory={**self.memory, "carveout": carveout})
        return board._checked()

    def _checked(self) -> Board:
        """Itself; BoardError when ranges overlap, are none for its MMU, or a flipped bit leads to the mailbox."""
        check_ranges(self.file, self.memory, self.devices, self.reserved)
        if not self.runs_optee:
            self._check_bits()
        return self.with_mmu(self.mmu)

    def with_mmu(self, mmu: bool) -> Board:
        """The same board with MMU and caches on or off; BoardError when its ranges are none for an MMU."""
        board = replace(self, mmu=mmu)
        if mmu:
            _ = board.translation
        return board

    @property
    def bit_from_mailbox(self) -> str:
        """Which secure address a flipped bit makes one of the mailbox's; "" where none does."""
        try:
            self._check_bits()
        except BoardError as error:
            return str(error)
        return ""

    def _check_bits(self) -> None:
        check_bits(self.file, {name: self.memory[name] for name in SECURE}, self.mailbox)

    @property
    def mailbox(self) -> Range:
        """Where the firmware finds the mailbox: with an MMU, not at its physical address."""
        physical = self.memory["mailbox"]
        return seen_far(physical) if self.mmu else physical

    @property
    def translation(self) -> Tables:
        """The tables of its MMU, walked once for every page's attributes; BoardError when there can be none."""
        try:
            if self.runs_optee:
                raise BoardError("mmu: OP-TEE has tables of its own")
            return checked(regions(self.memory, self.devices))
        except BoardError as error:
            error.file = self.file
            raise


def names() -> list[str]:
    """Names of the project's boards and environments."""
    folder = resources.files("baremetal") / "boards"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@functools.cache
def load(name: str) -> Board:
    """A board of the project, one of `names()`."""
    return _parse(f"{name}.toml", _text(name), None)


def read(path: Path) -> Board:
    """The board that a file describes.

    Raises:
        BoardError: the file is malformed, contradicts itself, or has the name of a board of the project.
        OSError: it, or a file of its port, cannot be read.
    """
    if path.stem in names():
        raise BoardError(f"{path.stem} is a board of the project: give the file another name", file=str(path))
    return _parse(str(path), read_file(path, limits.SMALL_BYTES), path.parent)


def _text(name: str) -> bytes:
    return (resources.files("baremetal") / "boards" / f"{name}.toml").read_bytes()


def _parse(file: str, text: bytes, folder: Path | None) -> Board:
    """A board; `folder` has the files of its port, None: it is the project's."""
    try:
        return _board(file, text, folder)
    except BoardError as error:
        error.file = file
        raise


def _board(file: str, text: bytes, folder: Path | None) -> Board:
    data = loads(text, BoardError)
    name = Path(file).stem
    if not _NAME.fullmatch(name):
        raise BoardError("the file's name", expected="at most 16 small letters, digits and '-'", found=repr(name))
    like = data.pop("like", None)
    if like is not None:
        if like not in names():
            raise BoardError(f"like: no board {like!r}; there are: {', '.join(names())}")
        data = over(loads(_text(like), BoardError), data)
    top = Table(data, "", BoardError)
    names_of_sources = top.texts("sources")
    check_files(names_of_sources)
    sources = {source: _source(source, folder) for source in names_of_sources}
    is_bare = bool(sources)
    devices, (constants, gpu_lines) = _ranges(top, "devices"), _constants(top)
    needed = ("gpu", "gic", "uart") if is_bare else ("gpu", "gic")
    for device in needed:
        if device not in devices:
            raise BoardError(f"devices.{device} is missing")
    for constant in ("gpu_spi", "uart_timeout_us") if is_bare else ("gpu_spi",):
        if constant not in constants:
            raise BoardError(f"constants.{constant} is missing")
    board = Board(
        name,
        file,
        folder is None,
        top.text("title"),
        top.take("is_silicon", bool),
        sources,
        _ranges(top, "memory", MEMORY if is_bare else ("carveout",)),
        devices,
        _ranges(top, "reserved", optional=True),
        constants,
        gpu_lines,
        top.take("mmu", bool, False),
        _gpu(top),
        _image(top),
    )
    top.end()
    check_used(sources, devices, constants)
    return board._checked()


def _source(name: str, folder: Path | None) -> bytes:
    """A file of a port: beside the board's file, or else the project's."""
    if not _FILE.fullmatch(name):
        raise BoardError("sources", expected="names of files that end in .c, .S or .h", found=repr(name))
    if folder is not None and (folder / name).exists():
        return read_file(folder / name, limits.SMALL_BYTES)
    own = resources.files("baremetal") / name
    if not own.is_file():
        where = f"in {folder}, or one of the project" if folder else "in baremetal"
        raise BoardError(f"sources: expected a file {name} {where}, found none")
    return (resources.files("baremetal") / name).read_bytes()


def _ranges(
    top: Table, key: str, fixed: tuple[str, ...] | None = None, *, optional: bool = False
) -> dict[str, Range]:
    """A table of ranges: of all these names, or else of any."""
    table = top.table(key, {} if optional else None)
    found = {}
    for name in fixed or list(table.rows):
        _check_word(table, name)
        row = table.table(name)
        found[name] = Range(row.number("base", ADDRESSES), row.number("bytes", ADDRESSES))
        row.end()
    table.end()
    return found


def _constants(top: Table) -> tuple[dict[str, int], int]:
    """The constants, and how many interrupts gpu_spi lists."""
    table = top.table("constants")
    lines = _listed(table) if type(table.rows.get("gpu_spi")) is list else ()
    found = {"gpu_spi": packed(lines)} if lines else {}
    for name in list(table.rows):
        _check_word(table, name)
        found[name] = table.number(name, LIMITS.get(name, 1 << 32))
    return found, len(lines)


def _listed(table: Table) -> tuple[int, ...]:
    """The interrupts that gpu_spi lists."""
    numbers = table.take("gpu_spi", list)
    good = all(type(number) is int and 0 <= number <= LAST_SPI for number in numbers)
    if not good or not 1 <= len(numbers) <= MOST_LINES or len(set(numbers)) != len(numbers):
        expected = f"one to {MOST_LINES} interrupts from 0 to {LAST_SPI}, each once"
        raise table.fail("gpu_spi", expected, numbers)
    return tuple(numbers)


def _check_word(table: Table, name: str) -> None:
    if not _WORD.fullmatch(name):
        raise table.fail("a name", "small letters, digits and '_'", repr(name))


def _gpu(top: Table) -> BoardGpu | None:
    if "gpu" not in top.rows:
        return None
    table = top.table("gpu")
    profile = table.text("profile")
    gpu = BoardGpu(profile, table.take("virtual", str, profile), table.take("power_model", str, ""))
    table.end()
    return gpu


def _image(top: Table) -> Image | None:
    if "image" not in top.rows:
        return None
    table = top.table("image")
    kind, firmware, options = table.text("kind"), table.texts("firmware"), table.texts("options")
    needed: dict[str, Any] = table.take("needed", dict, {})
    table.end()
    if kind not in IMAGE_KINDS:
        raise table.fail("kind", f"one of {', '.join(IMAGE_KINDS)}", repr(kind))
    if not firmware:
        raise table.fail("firmware is missing")
    if unknown := set(options) - set(IMAGE_OPTIONS):
        raise table.fail("options", f"some of {', '.join(IMAGE_OPTIONS)}", ", ".join(sorted(unknown)))
    if any(type(why) is not str for why in needed.values()):
        raise table.fail("needed", "texts", needed)
    return Image(kind, firmware, options, needed)
