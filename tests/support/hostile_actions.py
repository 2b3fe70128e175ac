# SPDX-License-Identifier: BSD-2-Clause
"""Hostile actions of a V3D: opcodes, the register policy, mappings, ranges of memory, waits."""

from __future__ import annotations

from tests.support import replayer_samples as s
from tests.support.hostile_rows import HUGE, REG, OfDevice, OfHost, Row, access, at, rows
from tests.support.replayer_samples import PAGE, register
from trace_format import errors
from trace_format.actions import ALL_BITS, MAP_EXECUTE, MAP_WRITE, Op
from trace_format.policy import PolicyError

# Indices of the sample's actions (replayer_samples.PROLOGUE, REPLAY).
MAP, PGTABLE, UPLOAD, COPY, JOB = 0, 1, 3, 5, 6
IMAGE_BYTES, CARVEOUT_BYTES, VA_PAGES = len(s.IMAGE), 16 * PAGE, 32
RANGE, RESERVED = errors.ActionRangeError, errors.ReservedError


def write(name: str, to: str, value: int, mask: int = ALL_BITS) -> Row:
    """A row that writes what the policy does not allow."""
    return at(name, "REGISTER", PolicyError, REG, arg=register(to), value=value, a=mask)


def wait(name: str, device: OfDevice, host: OfHost, **fields: int) -> Row:
    """A row with another wait for an interrupt."""
    return at(name, device, host, JOB, **{"op": Op.WAIT_IRQ, "arg": 0, "value": 5} | fields)


OPCODES = [
    at("unknown opcode", "ACTION", errors.UnknownActionError, JOB, op=0x77),
    at("opcode after the last of its group", "ACTION", errors.UnknownActionError, JOB, op=0x06),
    at("opcode zero", "ACTION", errors.UnknownActionError, JOB, op=0),
    at("opcode of all ones", "ACTION", errors.UnknownActionError, JOB, op=0xFF),
    at("a field that the opcode does not use", "ACTION", RESERVED, JOB, a=1),
    at("an argument that the opcode does not use", "ACTION", RESERVED, JOB, arg=1),
    at("a flag that the opcode does not have", "ACTION", RESERVED, JOB, flags=2),
    at("a job out of turn", "ACTION", errors.ActionError, JOB, value=1),
    at("a second start", "ACTION", errors.ActionError, JOB, op=Op.REPLAY_START),
    at(
        "a second start that is not the next",
        "ACTION",
        errors.ActionError,
        MAP,
        **dict.fromkeys(("flags", "arg", "value", "a", "b"), 0),
        op=Op.REPLAY_START,
    ),
    at(
        "an ignored value with a mask",
        "ACTION",
        errors.ActionError,
        REG,
        op=Op.REG_READ_ONCE,
        flags=1,
        arg=register("hub.IDENT1"),
        value=0,
        a=1,
    ),
    at(
        "a ninth kept value",
        "ACTION",
        RANGE,
        REG,
        op=Op.REG_READ_KEEP,
        arg=register("hub.IDENT1"),
        value=0,
        a=0,
        b=8,
    ),
    at("a kept value far away", "ACTION", RANGE, REG, op=Op.REG_WRITE_KEPT, value=0, a=0, b=HUGE),
    at("a read that waits no time", "ACTION", errors.ActionError, REG, op=Op.REG_READ_WAIT),
    wait("an interrupt that is waited for no time", "ACTION", errors.ActionError, value=0),
    wait("a second interrupt line", "RANGE", RANGE, arg=1),
    wait("an interrupt line far away", "RANGE", RANGE, arg=0xFFFF),
    wait("the end of an interrupt of another line", "RANGE", RANGE, op=Op.IRQ_EXIT, arg=1, value=0),
]

REGISTERS = [
    write("the page table's base", "hub.MMU_PT_PA_BASE", 0),
    write("the page table's cap", "hub.MMU_ADDR_CAP", 0),
    write("where illegal accesses go", "hub.MMU_ILLEGAL_ADDR", 0x80000000),
    write("a reset by the bridge", "bridge.SW_INIT_1", 1),
    write("the other reset by the bridge", "bridge.SW_INIT_0", 1),
    write("MMU bypass", "hub.MMU_BYPASS_START", 0),
    write("MMU off", "hub.MMU_CTL", 0),
    write("MMU off but for its faults", "hub.MMU_CTL", s.MMU_ON & ~1),
    write("MMU off, masked", "hub.MMU_CTL", 0, 1),
    write("MMU without aborts", "hub.MMU_CTL", 1),
    write("MMU without interrupts of invalid pages", "hub.MMU_CTL", s.MMU_ON & ~(1 << 18)),
    write("MMU faults cleared", "hub.MMU_CTL", 0x0E1D1C01),
    write("MMU faults cleared, masked", "hub.MMU_CTL", 0x08101000, 0x08101000),
    write("the MMU's cache off", "hub.MMUC_CONTROL", 0),
    write("a read-only register", "hub.IDENT1", 1),
    write("the jobs at work", "core0.CSD_STATUS", 0),
    write("job lists of bin", "core0.CLE_CT0QEA", 0),
    write("job lists of render", "core0.CLE_CT1QEA", 0),
    write("texture formatting", "hub.TFU_ICFG", 1),
    write("interrupts of faults cleared", "hub.INT_CLR", 1 << 2),
    write("interrupts of faults cleared in the core", "core0.INT_CLR", 1 << 3),
    write("interrupts of faults unmasked in the core", "core0.INT_MSK_CLR", 1 << 3),
    write("bits outside the policy", "core0.CTL_SLCACTL", 0x10),
    write("bits outside the policy, masked", "core0.CTL_SLCACTL", 0x10, 0x10),
    write("bits outside the policy of a cache", "core0.CTL_L2TCACTL", 0x8, 0x8),
    write("all bits of a register", "core0.CSD_QUEUED_CFG6", ALL_BITS),
    write("a masked write of what cannot be read", "hub.INT_CLR", 2, 2),
    access("a kept value to the page table's base", Op.REG_WRITE_KEPT, register("hub.MMU_PT_PA_BASE")),
    access("a kept value to a read-only register", Op.REG_WRITE_KEPT, register("hub.IDENT1")),
    access("a read of what can only be written", Op.REG_READ_ONCE, register("hub.INT_CLR")),
    access("a kept read of what can only be written", Op.REG_READ_KEEP, register("core0.INT_CLR")),
    at(
        "a read of a register that is not there",
        "REGISTER",
        PolicyError,
        REG,
        op=Op.REG_READ_ONCE,
        arg=0x2FF,
        value=0,
        a=0,
    ),
    at("a register that is not there", "REGISTER", PolicyError, REG, arg=0x2FF),
    at("the last word of the window", "REGISTER", PolicyError, REG, arg=s.GPU.window_bytes // 4 - 1),
    at("a register after the window", "REGISTER", errors.RegisterRangeError, REG, arg=s.GPU.window_bytes // 4),
    at("a register far outside the window", "REGISTER", errors.RegisterRangeError, REG, arg=0xFFFF),
]

MEMORY = [
    at("the table of another address space", "RANGE", RANGE, PGTABLE, arg=1),
    at("the table of an address space far away", "RANGE", RANGE, PGTABLE, arg=0x8000),
    at("map into another address space", "RANGE", RANGE, MAP, arg=1),
    at("map a page after the carve-out", "RANGE", RANGE, MAP, b=13),
    at("map far outside the carve-out", "RANGE", RANGE, MAP, b=HUGE, value=2),
    at("map the page table", "RANGE", RANGE, MAP, b=16, value=1),
    at("map a page after the virtual pages", "RANGE", RANGE, MAP, a=29),
    at("map far outside the virtual pages", "RANGE", RANGE, MAP, arg=0xFFF0),
    at("map virtual pages that wrap around", "RANGE", RANGE, MAP, arg=0xFFF0, a=HUGE),
    at("map very many pages", "RANGE", RANGE, MAP, value=HUGE),
    at("map no pages", "ACTION", errors.ActionError, MAP, value=0),
    at("map without permissions", "ACTION", errors.ActionError, MAP, flags=0),
    at("map with an unknown permission", "ACTION", RESERVED, MAP, flags=11),
    at("map the image for writing", "RANGE", RANGE, MAP, b=0),
    at("map the image for writing only", "RANGE", RANGE, MAP, b=0, flags=MAP_WRITE),
    at("map code for writing", "RANGE", RANGE, MAP, b=0, flags=MAP_WRITE | MAP_EXECUTE),
    at("unmap outside", "RANGE", RANGE, MAP, op=Op.UNMAP_GPU_MEM, flags=0, b=0, a=30),
    at("unmap no pages", "ACTION", errors.ActionError, MAP, op=Op.UNMAP_GPU_MEM, flags=0, b=0, value=0),
    at("unmap with a frame", "ACTION", RESERVED, MAP, op=Op.UNMAP_GPU_MEM, flags=0),
    at("upload over the image", "RANGE", RANGE, UPLOAD, a=0),
    at("upload to the image's last bytes", "RANGE", RANGE, UPLOAD, a=IMAGE_BYTES - 8),
    at("upload to the image's last page", "RANGE", RANGE, UPLOAD, a=IMAGE_BYTES),
    at("upload across the carve-out's end", "RANGE", RANGE, UPLOAD, a=CARVEOUT_BYTES - 99),
    at("upload over the page table", "RANGE", RANGE, UPLOAD, a=CARVEOUT_BYTES),
    at("upload to where it wraps around", "RANGE", RANGE, UPLOAD, a=HUGE - 7),
    at("upload from across the image's end", "RANGE", RANGE, UPLOAD, b=IMAGE_BYTES - 99),
    at("upload from after the image", "RANGE", RANGE, UPLOAD, b=IMAGE_BYTES),
    at("upload very much", "RANGE", RANGE, UPLOAD, value=HUGE),
    at("upload nothing", "ACTION", errors.ActionError, UPLOAD, value=0),
    at("clear the image", "RANGE", RANGE, UPLOAD, op=Op.CLEAR, a=0, b=0),
    at("clear very much", "RANGE", RANGE, UPLOAD, op=Op.CLEAR, value=HUGE, b=0),
    at("clear the page table", "RANGE", RANGE, UPLOAD, op=Op.CLEAR, a=CARVEOUT_BYTES, b=0),
    at("clear nothing", "ACTION", errors.ActionError, UPLOAD, op=Op.CLEAR, value=0, b=0),
    at("a slot that is not there", "RANGE", RANGE, COPY, arg=2),
    at("a slot far away", "RANGE", RANGE, COPY, op=Op.COPY_FROM_GPU, arg=0xFFFF),
]

ROWS = rows(OPCODES + REGISTERS + MEMORY)
