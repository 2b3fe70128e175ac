# SPDX-License-Identifier: BSD-2-Clause
"""The ranges that an audit of firmware computes hold what Unicorn computes, for random code without branches."""

from __future__ import annotations

from typing import Any

import unicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from unicorn import arm64_const as arm64

from host_tools.audit_firmware.bounds import Bounds
from host_tools.audit_firmware.flow import clobbered, flow_of
from host_tools.audit_firmware.image import of_bytes
from host_tools.audit_firmware.program import Program
from host_tools.audit_firmware.stack import frames
from host_tools.audit_firmware.values import Frame, Values

BASE, RET = 0x10000, 0xD65F03C0
REGISTERS = 4
REGISTER = st.integers(0, REGISTERS - 1)


def _three(opcode: int, *, wide: bool, shifts: int = 0) -> st.SearchStrategy[int]:
    """Three registers, the last one shifted to the left or right (Arm ARM, C4.1.94)."""
    amount = st.integers(0, 63 if wide else 31) if shifts else st.just(0)
    kind = st.integers(0, 1) if shifts else st.just(0)
    return st.builds(
        lambda d, n, m, a, k: opcode | wide << 31 | k << 22 | m << 16 | a << 10 | n << 5 | d,
        *(REGISTER, REGISTER, REGISTER, amount, kind),
    )


def _immediate(opcode: int) -> st.SearchStrategy[int]:
    return st.builds(
        lambda d, n, i, s: opcode | s << 22 | i << 10 | n << 5 | d,
        *(REGISTER, REGISTER, st.integers(0, 4095), st.integers(0, 1)),
    )


def _move(opcode: int) -> st.SearchStrategy[int]:
    return st.builds(
        lambda d, i, h: opcode | h << 21 | i << 5 | d,
        *(REGISTER, st.integers(0, 65535), st.integers(0, 3)),
    )


def _field(wide: bool) -> st.SearchStrategy[int]:
    """UBFM: shifts by constants, fields."""
    top = st.integers(0, 63 if wide else 31)
    opcode = 0xD3400000 if wide else 0x53000000
    return st.builds(lambda d, n, r, s: opcode | r << 16 | s << 10 | n << 5 | d, REGISTER, REGISTER, top, top)


CODE = st.lists(
    st.one_of(
        *(_immediate(opcode) for opcode in (0x91000000, 0x11000000, 0xD1000000, 0x51000000)),  # add, sub
        *(_three(0x0B000000, wide=wide, shifts=1) for wide in (True, False)),  # add
        *(_three(0x4B000000, wide=wide, shifts=1) for wide in (True, False)),  # sub
        *(_three(opcode, wide=True) for opcode in (0x0A000000, 0x2A000000, 0x4A000000)),  # and, orr, eor
        *(_three(opcode, wide=wide) for opcode in (0x1B000000, 0x1B007C00) for wide in (True, False)),  # madd, mul
        *(_three(opcode, wide=True) for opcode in (0x1A800000, 0x1A801400, 0x6B000000)),  # csel, csinc, subs
        *(_three(0x0B204000 | amount << 10, wide=True) for amount in range(3)),  # add with uxtw
        *(_move(opcode) for opcode in (0xD2800000, 0xF2800000)),  # movz, movk
        *(_field(wide) for wide in (True, False)),
        st.builds(lambda d, n: 0x12001C00 | n << 5 | d, REGISTER, REGISTER),  # and w, w, #0xff
        st.builds(lambda d, n: 0x927DF000 | n << 5 | d, REGISTER, REGISTER),  # and x, x, #-8
    ),
    min_size=1,
    max_size=6,
)
LONG = st.one_of(st.sampled_from((0, 1, 0xFF, 2**32 - 1, 2**32, 2**63, 2**64 - 1)), st.integers(0, 2**64 - 1))


def executed(code: bytes, registers: list[int]) -> list[int]:
    make: Any = unicorn.Uc  # which has no type hints
    machine = make(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    machine.mem_map(BASE, 0x1000)
    machine.mem_write(BASE, code)
    for number, value in enumerate(registers):
        machine.reg_write(arm64.UC_ARM64_REG_X0 + number, value)
    machine.emu_start(BASE, BASE + len(code) - 4)
    return [machine.reg_read(arm64.UC_ARM64_REG_X0 + number) for number in range(REGISTERS)]


@settings(max_examples=150, deadline=None)
@given(CODE, st.lists(st.lists(LONG, min_size=REGISTERS, max_size=REGISTERS), min_size=2, max_size=8))
def test_what_is_computed_lies_in_the_range(words: list[int], starts: list[list[int]]) -> None:
    code = b"".join(word.to_bytes(4, "little") for word in (*words, RET))
    program = Program(of_bytes("code", code, BASE, offsets=(0,)))
    (function,) = program.running
    frame = frames(function)
    flows = {function.start: flow_of(function, frame, clobbered(program))}
    values = Values(program, flows, {function.start: frame.before}, Bounds({}, flows))
    ranges = [values.register(Frame(function), BASE + len(code) - 4, number) for number in range(REGISTERS)]
    for start in starts:
        for number, result in enumerate(executed(code, start)):
            found = ranges[number]
            assert found.low <= result <= found.high, (number, hex(result), found)
            assert (result - found.low) % (found.step or 1) == 0, (number, hex(result), found)
            assert found.step or result == found.low
