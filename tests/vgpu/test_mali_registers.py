# SPDX-License-Identifier: BSD-2-Clause
"""The virtual Mali's registers: identity, reset, power, caches and interrupt lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from host_tools.vgpu import VirtualGpu
from host_tools.vgpu.binding import VgpuError
from tests.support.mali_model import GPU, JOB, MMU, MaliBoard

LATENCY = 5_000
Make = Callable[..., MaliBoard]


@pytest.fixture
def mali() -> Iterator[Make]:
    boards: list[MaliBoard] = []

    def make(**options: object) -> MaliBoard:
        boards.append(MaliBoard(**options))  # type: ignore[arg-type]
        return boards[-1]

    yield make
    for board in boards:
        board.gpu.close()


def test_two_identities(mali: Make) -> None:
    assert mali().read(0) == 0x60A00002
    other = mali(gpu="mali_g71-arch60")
    assert other.read(0) == 0x60000002
    other.write(0x30, 1)
    assert other.read(0) == 0x60000002


def test_soft_reset(mali: Make) -> None:
    board = mali(latency_ns=LATENCY)
    board.write(0xF00, 4)
    board.write(0x28, 0x500)
    board.write(0x30, 1)
    assert board.gpu.counters().resets == 1
    assert [board.read(offset) for offset in (0xF00, 0x28, 0x1008, 0x2008, 0x2400, 0x140, 0x160)] == [0] * 7
    board.write(0x28, 0x100)
    board.wait(LATENCY - 1)
    assert (board.read(0x20), board.gpu.interrupt_level(GPU)) == (0, False)
    board.wait(1)
    assert (board.read(0x20), board.read(0x2C), board.gpu.interrupt_level(GPU)) == (0x100, 0x100, True)
    board.write(0x24, 0x100)
    assert (board.read(0x20), board.gpu.interrupt_level(GPU)) == (0, False)


def test_power_goes_through_a_transition(mali: Make) -> None:
    board = mali(power=False, latency_ns=LATENCY)
    board.write(0x28, 0x400)
    board.write(0x190, 1)  # the tiler brings the L2 cache with it
    assert [board.read(offset) for offset in (0x210, 0x220, 0x200, 0x150, 0x160)] == [1, 1, 0, 0, 0]
    board.wait(LATENCY)
    assert [board.read(offset) for offset in (0x210, 0x220, 0x150, 0x160)] == [0, 0, 1, 1]
    assert (board.read(0x20), board.read(0x2C)) == (0x600, 0x400)
    board.write(0x24, 0x600)
    board.write(0x180, 0xFFF)  # only cores that are there
    assert board.read(0x200) == 0xFF
    board.wait(LATENCY)
    assert (board.read(0x140), board.read(0x144), board.read(0x200)) == (0xFF, 0, 0)
    board.write(0x24, 0x600)
    board.write(0x1C0, 0x0F)
    assert (board.read(0x200), board.read(0x140)) == (0x0F, 0xFF)
    board.wait(LATENCY)
    assert (board.read(0x200), board.read(0x140), board.read(0x20)) == (0, 0xF0, 0x600)


def test_powering_what_has_power_does_nothing(mali: Make) -> None:
    board = mali()
    board.write(0x180, 0xFF)
    board.write(0x184, 0xFF)
    assert (board.read(0x200), board.read(0x20)) == (0, 0)


@pytest.mark.parametrize("command", [7, 8])
def test_cache_clean(mali: Make, command: int) -> None:
    board = mali(latency_ns=LATENCY)
    board.write(0x28, 1 << 17)
    flush = board.read(0x38)
    board.write(0x30, command)
    assert board.read(0x20) == 0
    board.wait(LATENCY)
    assert (board.read(0x20), board.gpu.interrupt_level(GPU)) == (1 << 17, True)
    assert board.read(0x38) == flush + 1


def test_an_unknown_command(mali: Make) -> None:
    with pytest.raises(VgpuError, match=r"gpu\.COMMAND\) of 0x00000009: command is not modelled"):
        mali().write(0x30, 9)


@pytest.mark.parametrize(("line", "block"), [(JOB, 0x1000), (MMU, 0x2000), (GPU, 0x20)])
def test_interrupt_words(mali: Make, line: int, block: int) -> None:
    """Raw, clear, mask and status are one after the other in all three blocks."""
    board = mali()
    board.write(block + 8, 0)
    if line == GPU:
        board.write(0x30, 1)
        board.table(0x42000006, 0x40400000)
    else:
        board.submit(head=0x1000)  # not mapped: the job fails and the MMU reports a fault
    raw = board.read(block)
    assert raw
    assert (board.read(block + 12), board.gpu.interrupt_level(line)) == (0, False)
    board.write(block + 8, raw)
    assert (board.read(block + 12), board.gpu.interrupt_level(line)) == (raw, True)
    board.write(block + 4, raw)
    assert (board.read(block), board.read(block + 12), board.gpu.interrupt_level(line)) == (0, 0, False)
    assert board.levels[-2:] == [(line, True), (line, False)]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(VgpuError, match="mali_g71"):
        VirtualGpu("mali_t604")
