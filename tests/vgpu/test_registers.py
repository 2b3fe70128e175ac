# SPDX-License-Identifier: BSD-2-Clause
"""Registers: identities, access rules, busy bits, interrupts, reset, power."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.vgpu import VgpuError, VirtualGpu
from tests.support.sampling import few
from tests.support.vgpu_model import BRIDGE, CORE, CSD_DONE, MMU_ON, PM, RPIVID, Board, library

Boards = Callable[..., Board]
SMS_REE, SMS_TEE = 0xC000, 0xC400  # of a Raspberry Pi 5


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0x0004, 0x45),
        (0x000C, 0x000E1124),
        (0x0010, 0x100),
        (0x0014, 0xE00),
        (0x1238, 0x621),
        (CORE + 0x0, 0x04443356),
        (CORE + 0x4, 0x81001422),
        (CORE + 0x8, 0x40078121),
        (BRIDGE + 0x0, 0x0700),
    ],
)
def test_identity(board: Boards, offset: int, value: int) -> None:
    assert board(mmu=False).gpu.read32(offset) == value


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0x0018, None, r"read of hub 0x0018: unknown register"),
        (0x0018, 0, r"write to hub 0x0018: unknown register"),
        (0x0408, 1, r"write to hub 0x0408 \(hub\.TFU_ICFG\): the texture formatting unit \(TFU\) is not modelled"),
        (0x0400, None, r"read of hub 0x0400 \(hub\.TFU_CS\): the texture formatting unit"),
        (0x000C, 0, r"write to hub 0x000c \(hub\.IDENT1\): the register is read-only"),
        (0x0058, None, r"read of hub 0x0058 \(hub\.INT_CLR\): the register is write-only"),
        (0x0058, 0x40, r"hub 0x0058 \(hub\.INT_CLR\) of 0x00000040: reserved or not modelled bits 0x00000040"),
        (0x1200, 0x1 | 1 << 8, r"hub 0x1200 .* bits 0x00000100"),
        (CORE + 0x24, 0x10, r"core0 0x0024 \(core0\.CTL_SLCACTL\) of 0x00000010: .* bits 0x00000010"),
        (CORE + 0x30, 0x10, r"core0 0x0030 .* bits 0x00000010"),
        (CORE + 0x30, 0x3, r"core0 0x0030 .*: L2T mode 1 is not modelled"),
        (CORE + 0x910, 1 << 27, r"core0 0x0910 \(core0\.CSD_QUEUED_CFG3\) .* bits 0x08000000"),
        (CORE + 0x91C, 0x2, r"core0 0x091c .* bits 0x00000002"),
        (BRIDGE + 0x4, 1, r"write to bridge 0x0004: unknown register"),
        (BRIDGE + 0x8, 1, r"write to bridge 0x0008 \(bridge\.SW_INIT_0\): the register is not modelled"),
        (0xC000, None, r"window offset 0xc000: not a register \(window of 0xc000 bytes"),
        (0x0002, None, r"window offset 0x2: not a register"),
        (0xFFFFFFFC, 0, r"window offset 0xfffffffc: not a register"),
    ],
)
def test_refused_access(board: Boards, offset: int, value: int | None, message: str) -> None:
    gpu = board(mmu=False).gpu
    with pytest.raises(VgpuError, match=message):
        gpu.read32(offset) if value is None else gpu.write32(offset, value)


def test_a_failed_gpu_has_stopped(board: Boards) -> None:
    gpu = board(mmu=False).gpu
    with pytest.raises(VgpuError):
        gpu.write32(0x0, 0x100)
    reads = gpu.counters().reads
    for _ in range(2):
        with pytest.raises(VgpuError, match=r"hub\.AXICFG"):
            gpu.read32(0xC)
    assert gpu.counters().reads == reads
    assert gpu._lib.vgpu_read32(gpu._gpu, 0xC) == 0xDEADBEEF


def test_unknown_gpu() -> None:
    with pytest.raises(VgpuError, match="g71: unknown GPU name"):
        VirtualGpu("g71", library=library())


def test_busy_bits_last_for_the_latency(board: Boards) -> None:
    b = board(latency_ns=100)
    b.gpu.advance(1000)
    b.hub(0x1000, 3)
    b.hub(0x1200, MMU_ON | 4)
    b.core(0x30, 0x100)
    assert (b.hub(0x1000), b.hub(0x1200), b.core(0x30)) == (1 | 4, MMU_ON | 0x80, 0x100)
    b.gpu.advance(1099)
    assert (b.hub(0x1000), b.hub(0x1200), b.core(0x30)) == (1 | 4, MMU_ON | 0x80, 0x100)
    b.gpu.advance(1100)
    assert (b.hub(0x1000), b.hub(0x1200), b.core(0x30)) == (1, MMU_ON, 0)
    b.core(0x30, 5)
    assert b.core(0x30) == 5
    b.gpu.advance(1200)
    assert b.core(0x30) == 4  # the mode stays


def test_time_does_not_go_back(board: Boards) -> None:
    b = board()
    b.gpu.advance(5)
    with pytest.raises(VgpuError, match="from 5 ns to 4 ns"):
        b.gpu.advance(4)


@pytest.mark.parametrize(("block", "bit"), [(0x0, 0x10), (CORE, 0x80)])
def test_interrupt_set_mask_clear(board: Boards, block: int, bit: int) -> None:
    b = board(mmu=False)
    status, set_, clear, masks, mask_set, mask_clear = (block + 0x50 + 4 * i for i in range(6))
    gpu = b.gpu
    assert gpu.read32(masks) == 0xFFFFFFFF
    gpu.write32(set_, bit)
    assert gpu.read32(status) == bit
    assert not b.levels
    gpu.write32(mask_clear, bit)
    assert gpu.interrupt_level()
    gpu.write32(mask_set, bit)
    gpu.write32(mask_clear, bit)
    gpu.write32(clear, bit)
    assert gpu.read32(status) == 0
    assert b.levels == [(0, True), (0, False), (0, True), (0, False)]
    assert gpu.counters().interrupts == 2


def test_bridge_reset(board: Boards) -> None:
    b = board(hang_job=1)
    b.dispatch()
    b.core(0x54, 0x4)
    assert b.core(0x900) == 0x6
    assert b.gpu.interrupt_level()
    b.gpu.write32(BRIDGE + 0xC, 1)
    assert not b.gpu.interrupt_level()
    b.gpu.write32(BRIDGE + 0xC, 0)
    assert (b.core(0x900), b.core(0x50), b.core(0x5C), b.hub(0x1200), b.hub(0x1204)) == (0, 0, 0xFFFFFFFF, 0, 0)
    assert b.gpu.counters().resets == 1
    b.mmu_on()
    b.dispatch()
    assert b.core(0x50) == CSD_DONE


def test_no_access_while_in_reset(board: Boards) -> None:
    b = board(mmu=False)
    b.gpu.write32(BRIDGE + 0xC, 1)
    with pytest.raises(VgpuError, match="held in reset by the bridge"):
        b.hub(0xC)


@few(40, 200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.integers(0, 0x60).map(lambda word: 4 * word),
                st.integers(0, 0x60).map(lambda word: CORE + 4 * word),
                st.integers(0x400, 0x490).map(lambda word: 4 * word),
                st.integers(CORE // 4 + 0x240, CORE // 4 + 0x252).map(lambda word: 4 * word),
                st.integers(0, 0x18000),
            ),
            st.one_of(st.none(), st.sampled_from([0, 1, 2, 3, 4, MMU_ON]), st.integers(0, 0xFFFFFFFF)),
        ),
        max_size=40,
    )
)
def test_any_access_works_or_fails_for_good(accesses: list[tuple[int, int | None]]) -> None:
    with Board().gpu as gpu:
        for offset, value in accesses:
            was_failed = gpu.error
            try:
                gpu.read32(offset) if value is None else gpu.write32(offset, value)
                raised = False
            except VgpuError:
                raised = True
            assert raised == (gpu.error is not None)
            assert was_failed in (None, gpu.error)


def test_power_sequence(board: Boards) -> None:
    b = board(mmu=False, gpu="v3d42-pi4")
    assert b.gpu.window_bytes == 0x18000
    b.gpu.write32(PM + 0x10C, 0x5A000040)
    b.gpu.write32(RPIVID + 0xC, 0x5A000000)
    b.gpu.write32(RPIVID + 0x8, 0x5A000000)
    b.mmu_on()
    b.dispatch()
    assert b.core(0x50) == CSD_DONE
    b.gpu.write32(PM + 0x10C, 0x5A000000)
    assert b.gpu.counters().resets == 1
    with pytest.raises(VgpuError, match=r"core0 0x0050: the GPU is held in reset \(PM_GRAFX\)"):
        b.core(0x50)


def test_power_bridge_and_password(board: Boards) -> None:
    b = board(mmu=False, gpu="v3d42-pi4")
    b.gpu.write32(PM + 0x10C, 0x5A000040)
    with pytest.raises(VgpuError, match="bus bridge is stopped"):
        b.hub(0xC)
    b = board(mmu=False, gpu="v3d42-pi4")
    with pytest.raises(VgpuError, match=r"pm 0x010c .* password 0x00, expected 0x5a"):
        b.gpu.write32(PM + 0x10C, 0x40)


def test_power_by_sms(board: Boards) -> None:
    """On a Raspberry Pi 5: a GPU that is off or in reset answers nothing, and a reset takes its time."""
    b = board(mmu=False, gpu="v3d71-pi5")
    b.hub(0x1200, MMU_ON)
    for _ in range(2):  # a request that is repeated changes nothing
        b.gpu.write32(SMS_TEE, 1 << 30)
        assert b.gpu.read32(SMS_TEE) == b.gpu.read32(SMS_REE) == 0xD
    b.gpu.write32(SMS_TEE, 1 << 29)
    assert b.gpu.read32(SMS_TEE) == 0
    b.gpu.write32(SMS_REE, 4)
    assert b.gpu.read32(SMS_REE) == 0xB
    b.gpu.advance(1)
    assert b.gpu.read32(SMS_REE) == 0
    assert b.hub(0x1200) == 0  # the MMU is off again
    assert b.gpu.counters().resets == 1


@pytest.mark.parametrize(
    ("writes", "message"),
    [
        ([(SMS_TEE, 1 << 30)], "access to hub 0x000c: the GPU is off"),
        ([(SMS_REE, 4)], "access to hub 0x000c: the GPU is held in reset"),
        ([(SMS_TEE, 1 << 30), (SMS_REE, 4)], "write to sms 0x0000 (sms.REE_CS) of 0x00000004: the GPU is off"),
        ([(SMS_REE, 5)], "write to sms 0x0000 (sms.REE_CS) of 0x00000005: a request that is not modelled"),
    ],
)
def test_what_sms_refuses(board: Boards, writes: list[tuple[int, int]], message: str) -> None:
    b = board(mmu=False, gpu="v3d71-pi5")

    def access() -> None:
        for offset, value in writes:
            b.gpu.write32(offset, value)
        b.hub(0xC)

    with pytest.raises(VgpuError, match=re.escape(message)):
        access()
