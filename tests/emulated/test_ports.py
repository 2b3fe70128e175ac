# SPDX-License-Identifier: BSD-2-Clause
"""What a board's description chooses of the port: an 8250 for its UART, interrupts in an order of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from host_tools import runners
from host_tools.runners import firmware, unicorn
from host_tools.runners.replay import RunnerError
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.board_checks import BoardError
from tests.support import replayer_samples as s
from tests.support.firmware_samples import compiled, small_mali, values
from tests.support.replayer_samples import signed, trace
from trace_format.actions import Op, action

SPIS = (140, 141, 139)  # of the lines JOB, MMU and GPU
LSR, THRE = 0x14, 0x20
RESET = action(Op.REG_WRITE, register=0x30 // 4, value=1, mask=0xFFFFFFFF)


def described(folder: Path, constants: str) -> boards.Board:
    file = folder / "mine.toml"
    file.write_text(f'like = "qemu-virt"\ntitle = "Mine"\n[constants]\n{constants}\n')
    return boards.read(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("ports")
    constants = f"gpu_spi = {list(SPIS)}\nuart_8250 = 1\nuart_timeout_us = 1000"
    return compiled(home, "mali_g71", described(home, constants))


def test_it_replays(folder: Path, tmp_path: Path) -> None:
    small = small_mali(tmp_path)
    result = runners.run("unicorn", Delivery(signed(small)), s.KEY, values(small, 1), firmware=folder)
    assert result.ok, result.error


@pytest.mark.parametrize("spi", [*SPIS, 142, 138])
def test_each_line_is_polled_at_its_own_bit(folder: Path, spi: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One interrupt alone is pending: the line's wait ends, and no other's does."""

    def pending(self: Any, _uc: Any, offset: int, _size: int, _user: Any) -> int:
        self._guarded(self._pass_time)
        number = unicorn.GIC_SPI_BASE + spi
        return 1 << number % 32 if offset == unicorn.GICD_ISPENDR + number // 32 * 4 else 0

    monkeypatch.setattr(unicorn.Machine, "_gic_read", pending)
    for line, own in enumerate(SPIS):
        wait = action(Op.WAIT_IRQ, line=line, timeout_us=200)
        sample = trace(wait, gpu="mali_g71", slots=[], meta={"retry_limit": 0})
        result = runners.run("unicorn", Delivery(signed(sample)), s.KEY, firmware=folder)
        assert result.report.name == ("OK" if own == spi else "NO_IRQ"), line


@pytest.mark.usefixtures("without_sandboxes")
@pytest.mark.parametrize("busy", [0, 3, 1 << 30], ids=["ready", "busy at first", "never ready"])
def test_an_8250_is_asked_before_each_character(folder: Path, busy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status alone is read; one that never is ready ends no replay."""
    asked: list[int] = []

    def status(self: Any, _uc: Any, offset: int, _size: int, _user: Any) -> int:
        asked.append(offset)
        return THRE if len(asked) > busy else 0

    monkeypatch.setattr(unicorn.Machine, "_uart_read", status)
    sample = trace(RESET, gpu="mali_g71", slots=[])
    result = runners.run("unicorn", Delivery(signed(sample)), s.KEY, firmware=folder)
    assert result.ok, result.error
    assert set(asked) == {LSR}
    characters = len("=00000000\n")
    assert len(asked) == characters + busy if busy < 10 else len(asked) > 10 * characters


def test_qemus_machine_has_its_interrupts_in_order(folder: Path) -> None:
    sample = Delivery(signed(trace(RESET, gpu="mali_g71", slots=[])))
    with pytest.raises(RunnerError, match="expected its GPU's interrupts at one after another, found others"):
        runners.run("qemu", sample, s.KEY, firmware=folder)


@pytest.mark.parametrize(
    ("gpu", "spis", "reason"),
    [
        ("v3d42", "[40, 41, 39]", "expected an interrupt for each line of Broadcom V3D 4.2 .v3d., found 3"),
        ("mali_g71", "[40, 41]", "expected an interrupt for each line of Arm Mali G71 .job, mmu, gpu., found 2"),
    ],
)
def test_a_list_has_each_line_of_the_gpu(gpu: str, spis: str, reason: str, tmp_path: Path) -> None:
    board = described(tmp_path, f"gpu_spi = {spis}")
    with pytest.raises(BoardError, match=rf"mine\.toml: constants\.gpu_spi: {reason}"):
        compiled(tmp_path, gpu, board)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_lines_in_order_are_the_same_firmware(tmp_path: Path) -> None:
    found: list[bytes] = []
    for constants in ("gpu_spi = 40", "gpu_spi = [40, 41, 42]\nuart_8250 = 0"):
        home = tmp_path / str(len(found))
        home.mkdir()
        found.append((compiled(home, "mali_g71", described(home, constants)) / firmware.BINARY).read_bytes())
    assert found[0] == found[1]
