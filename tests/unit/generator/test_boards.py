# SPDX-License-Identifier: BSD-2-Clause
"""Descriptions of boards: those of the project against what they name, and whatever one's own may have wrong."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from host_tools.families.family import profile_of
from host_tools.flash.names import CONTAINERS
from host_tools.flash.pack import BUILDERS, Sources
from host_tools.runners.power import model
from tee_replayer.generator import bare_metal, boards
from tee_replayer.generator.board_checks import BoardError, Range
from tee_replayer.generator.boards import Board
from tee_replayer.generator.target import drivers
from tests.support.places import CHECKOUT

MIB = 1 << 20
TEMPLATE = CHECKOUT / "docs" / "your-board"


@pytest.mark.parametrize("name", boards.names())
def test_what_a_board_names_is_there(name: str) -> None:
    board = boards.load(name)
    assert board.runs_optee == (name == "optee")
    if board.gpu:
        assert board.gpu.profile in drivers()
        assert profile_of(board.gpu.virtual).name == board.gpu.profile
        assert not board.gpu.power_model or model(board.gpu.power_model).BOARD is board


def test_real_boards_are_marked() -> None:
    assert [name for name in boards.names() if boards.load(name).is_silicon] == ["hikey960", "rk3576", "rpi4"]
    assert all(bool(boards.load(name).notice) == boards.load(name).is_silicon for name in boards.names())


def test_kinds_and_options_of_images_are_those_that_can_be_packed() -> None:
    assert set(boards.IMAGE_KINDS) == CONTAINERS.keys()
    assert {CONTAINERS[kind] for kind in boards.IMAGE_KINDS} == BUILDERS.keys()
    assert set(boards.IMAGE_OPTIONS) == vars(Sources()).keys() - {"traces"}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The template, as a user copies it."""
    for name in ("my-board.toml", "my_board.c"):
        shutil.copyfile(TEMPLATE / name, tmp_path / name)
    return tmp_path / "my-board.toml"


def changed(file: Path, old: str, new: str) -> Board:
    text = file.read_text(encoding="utf-8")
    found, count = re.subn(old, new, text, flags=re.MULTILINE)
    assert count == 1, old
    file.write_text(found, encoding="utf-8")
    return boards.read(file)


def test_the_template(written: Path) -> None:
    board = boards.read(written)
    assert (board.name, board.is_own, board.runs_optee) == ("my-board", False, False)
    assert board.memory["carveout"] == Range(0x9000_0000, 128 * MIB)
    assert board.sources == {"my_board.c": (TEMPLATE / "my_board.c").read_bytes()}
    header = bare_metal.header(board)
    for line in (
        "GR_CLOCK_BASE 0x1e000000",
        "GR_COUNTER_HZ 24000000",
        "GR_POWER_BASE 0x0",
        "GR_ROM_BYTES 0x20000",
    ):
        assert f"#define {line}\n" in header


def test_a_board_says_only_what_differs_from_another(tmp_path: Path) -> None:
    file = tmp_path / "old-hikey.toml"
    file.write_text('like = "hikey960"\n[devices]\nuart = { base = 0xfdf05000 }\n[constants]\ngpu_mhz = 533\n')
    board, like = boards.read(file), boards.load("hikey960")
    assert board.devices == {**like.devices, "uart": Range(0xFDF0_5000, 0x1000)}
    assert board.constants == {**like.constants, "gpu_mhz": 533}
    assert (board.sources, board.image, board.name) == (like.sources, like.image, "old-hikey")


def test_the_example_in_the_documents(tmp_path: Path) -> None:
    text = TEMPLATE.with_name("YOUR-BOARD.md").read_text(encoding="utf-8")
    example = re.findall(r"^```toml\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert len(example) == 1
    (tmp_path / "first-hikey.toml").write_text(example[0])
    assert boards.read(tmp_path / "first-hikey.toml").devices["uart"].base == 0xFDF0_5000


BAD = {
    "not TOML": (r"^\[memory\].*", "[memory", "not TOML"),
    "nested too deep": (r"^\[memory\].*", "[memory]\nx = " + "[" * 9999, "not TOML"),
    "a number without end": (r"gpu_spi = 42", "gpu_spi = " + "9" * 9999, "not TOML"),
    "unknown key": (r"^title", 'colour = "red"\ntitle', "unknown keys colour"),
    "unknown table": (r"^\[reserved\]", "[reservd]", r"unknown keys reservd"),
    "unknown range": (r"^carveout =", "carvout =", r"memory: carveout is missing"),
    "more memory": (r"^mailbox =", "cache = { base = 0, bytes = 1 }\nmailbox =", r"memory: unknown keys cache"),
    "key of a range": (r"(^rom = .*)bytes", r"\1size", r"memory\.rom: bytes is missing"),
    "no title": (r"^title.*", "", "title is missing"),
    "title is a number": (r"^title.*", "title = 1", "title: expected a value of type str, found 1"),
    "silicon is a text": (r"^is_silicon = true", 'is_silicon = "no"', "is_silicon: expected a value of type bool"),
    "like nothing": (r"^title", 'like = "pdp11"\ntitle', "like: no board 'pdp11'; there are: hikey960"),
    "no carve-out": (
        r"(^carveout = .*bytes = )0x8000000",
        r"\g<1>0",
        r"memory\.carveout\.bytes: expected .* above 0",
    ),
    "too large a carve-out": (
        r"(^carveout = .*bytes = )0x8000000",
        r"\g<1>0x1000000000",
        r"memory\.carveout\.bytes: expected less than 0x1000000000, found 0x1000000000",
    ),
    "odd carve-out": (r"(^carveout = .*bytes = )0x8000000", r"\g<1>0x801", r"memory\.carveout\.bytes: .*0x1000"),
    "carve-out not at a page": (
        r"0x90000000",
        "0x90000800",
        r"memory\.carveout\.base: expected a multiple of 0x1000",
    ),
    "vectors": (r"(^rom = .*)0x80000000", r"\g<1>0x80000400", r"memory\.rom\.base: expected a multiple of 0x800"),
    "negative": (r"0x90000000", "-1", r"memory\.carveout: base: expected 0 to"),
    "beyond all addresses": (r"0x90000000", "0x1000000000000", r"memory\.carveout: base: expected 0 to 0xff"),
    "data over code": (r"0x80020000", "0x8001f000", r"memory\.rom \(.*\) overlaps memory\.ram \(0x8001f000 to "),
    "carve-out over the mailbox": (
        r"0xf0000000",
        "0x97fff000",
        r"memory\.carveout \(.*\) overlaps memory\.mailbox \(0x97fff000 to 0x99ffefff\)",
    ),
    "carve-out over the GPU": (r"(^gpu = .*)0x1b000000", r"\g<1>0x97fff000", r"carveout .* overlaps devices\.gpu"),
    "carve-out over the boot loader": (
        r"(^boot_loader = .*)0x80040000",
        r"\g<1>0x8ffff000",
        r"carveout .* overlaps reserved\.boot_loader",
    ),
    "two devices in one place": (r"0x1d000000", "0x1c001800", r"devices\.gic .* overlaps devices\.uart"),
    "no UART": (r"^uart = .*", "", r"devices\.uart is missing"),
    "a device that nothing uses": (
        r"^clock =",
        "watchdog = { base = 0x1f000000, bytes = 4 }\nclock =",
        r"devices\.watchdog: nothing uses GR_WATCHDOG_BASE: none of my_board\.c, port\.c",
    ),
    "a constant that nothing uses": (
        r"^counter_hz",
        "counter_mhz",
        r"constants\.counter_mhz: nothing uses GR_COUNT",
    ),
    "a constant in capitals": (r"^counter_hz", "COUNTER_HZ", "constants: a name: expected small letters"),
    "an interrupt that there is not": (
        r"gpu_spi = 42",
        "gpu_spi = 988",
        "gpu_spi: expected 0 to 0x3db, found 0x3dc",
    ),
    "no interrupts": (r"gpu_spi = 42", "gpu_spi = []", "gpu_spi: expected one to 3 interrupts from 0 to 987"),
    "an interrupt twice": (
        r"gpu_spi = 42",
        "gpu_spi = [42, 43, 42]",
        r"gpu_spi: .* each once, found \[42, 43, 42\]",
    ),
    "interrupts as texts": (r"gpu_spi = 42", 'gpu_spi = ["42"]', r"gpu_spi: expected one to 3 .*, found \['42'\]"),
    "a listed interrupt that there is not": (r"gpu_spi = 42", "gpu_spi = [988]", r"gpu_spi: .* found \[988\]"),
    "a UART of another kind": (
        r"gpu_spi = 42",
        "gpu_spi = 42\nuart_8250 = 16550",
        "uart_8250: expected 0 to 0x1, found 0x40a6",
    ),
    "no interrupt": (r"^gpu_spi.*", "", r"constants\.gpu_spi is missing"),
    "no port": (
        r'\["my_board\.c"\]',
        '["your_board.c"]',
        r"sources: expected a file your_board\.c in .*, found none",
    ),
    "a port elsewhere": (
        r'\["my_board\.c"\]',
        '["../my_board.c"]',
        r"sources: expected names of files that end in",
    ),
    "a file that is there": (
        r'\["my_board\.c"\]',
        '["main.c"]',
        r"sources: main\.c collides with main\.c of the gen",
    ),
    "a header that is there": (
        r'\["my_board\.c"\]',
        '["board.h"]',
        r"sources: board\.h collides with board\.h of",
    ),
    "an object that is there": (r'\["my_board\.c"\]', '["port.S"]', r"sources: port\.S collides with port\.c of"),
    "one object twice": (
        r'\["my_board\.c"\]',
        '["my_board.c", "my_board.S"]',
        r"sources: my_board\.S collides with my_board\.c",
    ),
    "sources as a text": (r'\["my_board\.c"\]', '"my_board.c"', "sources: expected a value of type list"),
    "GPU without profile": (r"^profile = .*", "", "gpu: profile is missing"),
    "kind of image": (
        r"\Z",
        '[image]\nkind = "tape"\nfirmware = ["x"]\n',
        r"image: kind: expected one of flash, card",
    ),
    "no firmware": (r"\Z", '[image]\nkind = "flash"\n', "image: firmware is missing"),
    "unknown option": (
        r"\Z",
        '[image]\nkind = "flash"\nfirmware = ["firmware.bin"]\noptions = ["fib"]\n',
        "image: options: expected some of fip, core, ta_signing_key, boot_firmware, kernel, initrd, found fib",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_named_with_file_and_key(name: str, written: Path) -> None:
    old, new, reason = BAD[name]
    with pytest.raises(BoardError) as error:
        changed(written, old, new)
    assert str(error.value).startswith(f"{written}: ")
    assert re.search(reason, str(error.value)), str(error.value)


@pytest.mark.parametrize("name", ["My_Board", "a-board-with-a-name-too-long", "-"])
def test_a_name_that_no_firmware_can_have(name: str, written: Path) -> None:
    with pytest.raises(BoardError, match="the file's name: expected at most 16 small letters"):
        boards.read(written.rename(written.with_name(f"{name}.toml")))


def test_the_projects_names_are_taken(written: Path) -> None:
    with pytest.raises(BoardError, match="rpi4 is a board of the project: give the file another name"):
        boards.read(written.rename(written.with_name("rpi4.toml")))


def test_devices_may_lie_where_memory_may_not(written: Path) -> None:
    reserved = boards.read(written).reserved["peripherals"]
    for device in boards.read(written).devices.values():
        assert reserved.base <= device.base < device.end <= reserved.end


@pytest.mark.parametrize(
    ("name", "mib", "reason"),
    [
        ("rpi4", 512, r"rpi4\.toml: memory\.carveout \(0x20000000 to 0x3fffffff\) overlaps reserved\.videocore"),
        ("hikey960", 64, r"overlaps reserved\.normal_world"),
        ("qemu-virt", 0, r"qemu-virt\.toml: memory\.carveout\.bytes: expected .* above 0, found 0x0"),
    ],
)
def test_a_carveout_that_there_is_no_room_for(name: str, mib: int, reason: str) -> None:
    with pytest.raises(BoardError, match=reason):
        boards.load(name).with_carveout(mib * MIB)


def test_another_size_of_carveout() -> None:
    assert boards.load("qemu-virt").with_carveout(512 * MIB).memory["carveout"] == Range(1 << 32, 512 * MIB)
    assert boards.load("qemu-virt").memory["carveout"].bytes == 256 * MIB
