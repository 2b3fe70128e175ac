# SPDX-License-Identifier: BSD-2-Clause
"""Boards of one's own, as docs/YOUR-BOARD.md has it: the template, and what `make` does with other numbers."""

from __future__ import annotations

import functools
import mmap
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import firmware, libraries, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support.firmware_samples import GCC, STRICT, compiled, values
from tests.support.places import CHECKOUT
from tests.support.replayer_samples import signed, trace

pytestmark = pytest.mark.usefixtures("checked_caches")

TEMPLATE = CHECKOUT / "docs" / "your-board"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template's firmware, compiled."""
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    home = tmp_path_factory.mktemp("own")
    shutil.copytree(TEMPLATE, home / "board")
    board = boards.read(home / "board" / "my-board.toml")
    out = generate(Options("v3d42", platform_of(board), s.KEY, libraries.source()), home / "out")
    firmware.compile_firmware(out, STRICT)
    return out


@pytest.fixture
def again(folder: Path, tmp_path: Path) -> Path:
    """The same folder, built, for a test to change; the copies are as old as the originals."""
    return Path(shutil.copytree(folder, tmp_path / "out"))


def make(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", out, *arguments], capture_output=True, text=True, check=False)


def test_the_template_replays(folder: Path) -> None:
    assert clock_of_a_replay(folder) == [(0, 1), (0, 0)]


def clock_of_a_replay(folder: Path) -> list[tuple[int, int]]:
    """Replay on Unicorn with the template's memory map; what is written to its clock, which no runner knows."""
    fw = firmware.load(folder)
    data = signed(trace())
    sample = Delivery(data).trace
    assert sample
    buffers = bind(sample, values(sample, 1))
    dram = np.frombuffer(mmap.mmap(-1, 1 << 20), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, data, buffers, 1)
    with VirtualGpu("v3d42", {fw.board.carveout_base: carveout}, latency_ns=6000) as gpu:
        machine = unicorn.Machine(fw, gpu, carveout, dram)
        clock: list[tuple[int, int]] = []
        uc: Any = machine._uc
        uc.mmio_map(
            *(0x1E000000, unicorn.PAGE),
            *(lambda _uc, at, _size, _: int(at == 4), None),
            *(lambda _uc, at, _size, value, _: clock.append((at, value)), None),
        )
        machine.run()
    report = mailbox.response(dram.data, buffers, places)
    assert report.ok, report
    assert machine.uart == b"=%08x\n" % report.status
    return clock


def test_an_image_for_a_board_like_another(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('like = "qemu-virt"\ntitle = "Mine"\n[memory]\ncarveout = { base = 0x180000000 }\n')
    out = compiled(tmp_path, "v3d42", boards.read(own))
    (tmp_path / "net.sgtr").write_bytes(signed(trace(meta={"name": "small"})))
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    run = functools.partial(CliRunner().invoke, main, catch_exceptions=False)
    image, key = str(tmp_path / "flash.img"), ("--key", str(tmp_path / "pub.pem"))
    packed = run(["flash", str(out), "-o", image, "--trace", str(tmp_path / "net.sgtr")])
    assert packed.exit_code == 0, packed.stderr
    assert packed.stdout.startswith(f"{image}: 524288 bytes for mine, ")
    assert run(["flash", "--check", image, *key, "--board", str(own)]).exit_code == 0
    refused = run(["flash", "--check", image, *key])
    assert refused.exit_code == 1
    assert "platform in the firmware: expected qemu-virt, found mine" in refused.stdout


def test_a_board_without_image_is_not_flashed(folder: Path, tmp_path: Path) -> None:
    line = ["flash", str(folder), "-o", str(tmp_path / "flash.img")]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 2
    assert f"{folder}/my-board.toml: [image] is missing: it says what the board is flashed with" in done.stderr


@pytest.mark.exhaustive  # four builds; that a change is built with, the test of flags shows
def test_other_numbers_are_built_at_once(again: Path) -> None:
    before = (again / "firmware.bin").read_bytes()
    assert make(again, "-q", STRICT).returncode == 0, "nothing to do"
    header = (again / "board.h").read_text()
    (again.parent / "other.h").write_text(header.replace("0x1d000000", "0x1d004000"))
    assert make(again, STRICT, "BOARD=../other.h").returncode == 0
    assert firmware.load(again).board.uart_base == 0x1D004000
    (again.parent / "other.h").write_text(header.replace("0x1d000000", "0x1d008000"))
    assert make(again, STRICT, "BOARD=../other.h").returncode == 0
    assert firmware.load(again).board.uart_base == 0x1D008000
    assert make(again, STRICT).returncode == 0
    assert (again / "firmware.bin").read_bytes() == before


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("GR_UART_BASE", "GR_UART_BSAE", "GR_UART_BASE"),
        ("GR_CARVEOUT_BYTES 0x8000000", "GR_CARVEOUT_BYTES 0", "size of CARVEOUT"),
        ("GR_CARVEOUT_BYTES 0x8000000", "GR_CARVEOUT_BYTES 0x60001000", "CARVEOUT and MAILBOX overlap"),
        ("GR_CARVEOUT_BASE 0x90000000", "GR_CARVEOUT_BASE 0x18000000", "CARVEOUT and GPU overlap"),
        ("GR_GPU_SPI 42", "GR_GPU_SPI 988", "interrupt of GPU"),
        ("GR_ROM_BYTES 0x20000", "GR_ROM_BYTES 0x1000", "code and constants do not fit the board's rom"),
        ("GR_RAM_BYTES 0x20000", "GR_RAM_BYTES 0x3000", "data and stack do not fit the board's ram"),
    ],
)
def test_a_mistake_is_no_firmware(old: str, new: str, reason: str, again: Path) -> None:
    header = (again / "board.h").read_text()
    assert old in header
    (again / "board.h").write_text(header.replace(old, new))
    done = make(again, STRICT)
    assert done.returncode != 0
    assert reason in done.stderr


@pytest.mark.parametrize("value", ["-DGR_UART_BASE=0x1d004000", "bord.h", "board.h -DGR_UART_BASE=0x1d004000"])
def test_a_board_that_is_no_header(value: str, again: Path) -> None:
    before = (again / "firmware.bin").stat().st_mtime_ns
    done = make(again, f"BOARD={value}")
    assert done.returncode != 0
    assert f"BOARD={value}: expected a header like board.h, found no such file" in done.stderr
    assert (again / "firmware.bin").stat().st_mtime_ns == before


def test_flags_of_ones_own_are_built_with(again: Path) -> None:
    (again / "my_board.c").write_text((again / "my_board.c").read_text() + "\nstatic int unused;\n")
    assert make(again, "EXTRA_CFLAGS=").returncode == 0, "warnings are errors only where we develop"
    done = make(again, "EXTRA_CFLAGS=-Werror -DMINE=1")
    assert done.returncode != 0
    assert "-DMINE=1" in done.stdout
    assert "unused" in done.stderr


@pytest.mark.exhaustive  # tests/emulated/test_linux_build.py builds with clang
@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is missing: apt-get install clang")
def test_clangs_firmware_replays(again: Path) -> None:
    done = make(again, "-s", "CC=clang", STRICT)
    assert done.returncode == 0, done.stderr
    assert clock_of_a_replay(again) == [(0, 1), (0, 0)]


def test_runners_say_what_they_have_no_model_of(folder: Path, tmp_path: Path) -> None:
    """Not a time limit, and not an address without a name."""
    (tmp_path / "net.sgtr").write_bytes(signed(trace(meta={"name": "small"})))
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    for slot, value in values(trace(), 1).items():
        np.save(tmp_path / f"{slot}.npy", value)
    line = ["replay", str(tmp_path / "net.sgtr"), "--key", str(tmp_path / "pub.pem"), "--firmware", str(folder)]
    line += [word for slot in values(trace(), 1) for word in ("--input", f"{slot}={tmp_path / slot}.npy")]

    def said(runner: str) -> str:
        done = CliRunner().invoke(main, [*line, "--on", runner], catch_exceptions=False)
        assert done.exit_code == 2
        return done.stderr

    assert "made for another machine than QEMU's: expected its code at 0x0, found 0x80000000" in said("qemu")
    assert "the firmware tried to write to 0x1e000000" in said("unicorn")
    assert "no model of other devices" in said("unicorn")
