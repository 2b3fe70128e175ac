# SPDX-License-Identifier: BSD-2-Clause
"""Fault injection: skip any one instruction of the verification, and a damaged trace is still refused.

The model is the one of MCUboot's tests: a glitch makes the processor pass over one instruction. Everything that
the firmware itself executes from the library's verdict on is tried, one instruction a run. A glitch may fall into
the nano driver, which resets the GPU or points it at a page table; that starts nothing. Nothing of the trace may
reach the GPU.
"""

from __future__ import annotations

import functools
import mmap
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unicorn as uc
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import arm64_const as arm64

from host_tools.runners import firmware, mailbox, unicorn
from host_tools.runners.buffers import Buffers
from host_tools.runners.replay import RunnerError
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from tee_replayer.target import drivers
from tests.support import replayer_samples as s
from tests.support.replayer_samples import signed, trace
from tests.support.sampling import SomeOf
from trace_format import profile
from trace_format.actions import ALL_BITS, Op, action
from trace_format.errors import ReservedError
from trace_format.trace import Trace

BAD = 0x9D840CDD  # GR_SIGNATURE_BAD of core/crypto.h
GOOD = 0x627BF322
# What a nano driver writes.
DRIVER = {
    "v3d42": {
        "bridge.SW_INIT_1",
        *(f"hub.{name}" for name in ("MMU_PT_PA_BASE", "MMU_ADDR_CAP", "MMU_ILLEGAL_ADDR", "MMU_CTL")),
    },
    "mali_g71": {
        "gpu.COMMAND",
        *(f"{block}.IRQ_{name}" for block in ("gpu", "job", "mmu") for name in ("MASK", "CLEAR")),
        *(f"as{i}.{name}" for i in range(8) for name in ("TRANSCFG_LO", "COMMAND")),
        *(f"as0.{name}_{half}" for name in ("TRANSCFG", "TRANSTAB", "MEMATTR") for half in ("LO", "HI")),
    },
}
# A write that only a trace makes.
TRACE = {"v3d42": "core0.INT_CLR", "mali_g71": "js0.HEAD_NEXT_LO"}
STEPS = 400  # instructions of ours after the decisive call


@pytest.fixture(scope="module", params=drivers())
def gpu(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def fw(gpu: str) -> firmware.Firmware:
    if shutil.which(f"{firmware.CROSS}gcc") is None:
        pytest.skip("no cross compiler: apt-get install gcc-aarch64-linux-gnu")
    return firmware.build(s.KEY, gpu)


def sample(gpu: str) -> Trace:
    """Maps memory and writes a register."""
    register = profile.load(gpu).register(TRACE[gpu])
    rows = [*s.PROLOGUE[:2], action(Op.REG_WRITE, register=register.index, value=0x80, mask=ALL_BITS)]
    return trace(*rows, gpu=gpu, slots=[])


@functools.cache
def functions(folder: Path) -> dict[str, tuple[int, int]]:
    """Address and size of each function."""
    with (folder / firmware.ELF).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {
            symbol.name.partition(".")[0]: (symbol["st_value"], symbol["st_size"])
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC"
        }


@dataclass
class Attack:
    """One run of the firmware over a damaged trace.

    Args:
        fw: the firmware.
        gpu: the virtual GPU.
        data: the damaged trace.
        after: function after whose return instructions are counted; the crypto functions are not executed but
            answer `verdict` and digests of zero, which makes a run short and every hash wrong.
        skip: number of the instruction that is skipped, -1 for none.
    """

    fw: firmware.Firmware
    gpu: str
    data: bytes
    after: str
    verdict: int
    skip: int = -1
    count: int = field(default=0, init=False)
    counting: bool = field(default=False, init=False)
    written: set[str] = field(default_factory=set, init=False)
    accepted: bool = field(default=False, init=False)

    def run(self) -> Attack:
        board = self.fw.board
        self.names = functions(self.fw.folder)
        dram = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
        carveout = np.frombuffer(mmap.mmap(-1, board.carveout_bytes), np.uint8)
        places = mailbox.request(dram.data, self.data, Buffers(), 1)
        describe = profile.load(self.gpu).describe
        with VirtualGpu(self.gpu, {board.carveout_base: carveout}) as device:
            write32 = device.write32

            def note(offset: int, value: int) -> None:
                self.written.add(describe(offset))
                write32(offset, value)

            device.write32 = note  # type: ignore[method-assign]
            machine = unicorn.Machine(self.fw, device, carveout, dram)
            engine = machine._uc
            end = max(at + size for at, size in self.names.values())
            engine.hook_add(uc.UC_HOOK_CODE, self._step, None, 0, end)
            try:
                machine.run()
                self.accepted = mailbox.response(dram.data, Buffers(), places).ok
            except (RunnerError, VgpuError):
                pass  # it crashed or hung: no access to the GPU, and that is what counts
            except ReservedError:
                pass  # a report that the normal world refuses
        return self

    def _step(self, engine: Any, at: int, _size: int, _user: Any) -> None:
        for name in ("gr_signature_verify", "gr_sha256"):
            if at == self.names[name][0]:
                if name == "gr_signature_verify":
                    engine.reg_write(arm64.UC_ARM64_REG_X0, self.verdict)
                self.counting = self.counting or name == self.after
                engine.reg_write(arm64.UC_ARM64_REG_PC, engine.reg_read(arm64.UC_ARM64_REG_LR))
                return
        if not self.counting:
            return
        self.count += 1
        if self.count - 1 == self.skip:
            engine.reg_write(arm64.UC_ARM64_REG_PC, at + 4)
        if self.count > 200_000:  # a glitch made a loop endless
            engine.emu_stop()


@pytest.mark.parametrize(
    ("after", "verdict"), [("gr_signature_verify", BAD), ("gr_sha256", GOOD)], ids=["signature", "chunk"]
)
def test_no_single_skipped_instruction_lets_a_damaged_trace_through(
    fw: firmware.Firmware, gpu: str, after: str, verdict: int, some_of: SomeOf
) -> None:
    data = signed(sample(gpu))
    plain = Attack(fw, gpu, data, after, verdict).run()
    assert plain.written == set()
    assert not plain.accepted
    assert plain.count > 20
    for skip in some_of(range(min(plain.count, STEPS)), 60):
        attack = Attack(fw, gpu, data, after, verdict, skip).run()
        assert attack.written <= DRIVER[gpu], f"instruction {skip} after {after}"
        assert not attack.accepted, f"instruction {skip} after {after}"


def test_the_attack_would_be_seen(fw: firmware.Firmware, gpu: str) -> None:
    """Where nothing is damaged but the verdict is good, registers are written: the test above can fail."""

    class Honest(Attack):
        def _step(self, engine: Any, at: int, _size: int, _user: Any) -> None:
            if at == self.names["gr_signature_verify"][0]:
                engine.reg_write(arm64.UC_ARM64_REG_X0, self.verdict)
                engine.reg_write(arm64.UC_ARM64_REG_PC, engine.reg_read(arm64.UC_ARM64_REG_LR))

    attack = Honest(fw, gpu, signed(sample(gpu)), "gr_sha256", GOOD).run()
    assert attack.written == DRIVER[gpu] | {TRACE[gpu]}
