# SPDX-License-Identifier: BSD-2-Clause
"""Faults that a firmware's MMU stops, in QEMU: each ends in the exception that wipes and prints its address."""

from __future__ import annotations

import re

import pytest

from host_tools.runners import firmware
from host_tools.runners.qemu import machine_of
from host_tools.runners.replay import RunnerError
from host_tools.runners.secure_machine import DRAM_BASE, MIB, dram, run
from host_tools.vgpu.build import QEMU
from tests.support.bare_metal import require
from tests.support.firmware_samples import compiled
from tests.support.planted import Defect, plant
from trace_format.schema.mailbox import MAILBOX_DATA_AT, REQUEST_MAGIC

# What goes wrong, once the MMU is on and the carve-out full of secrets, by the number in the mailbox.
FAULTS = """\
extern uint32_t gr_rom_start[], gr_translation[];
#define SECRETS 1024

static void execute(volatile uint32_t *from)
{
    from[0] = 0xd65f03c0; /* ret */
    __asm__ volatile("dsb sy\\n\\tisb\\n\\tblr %0" ::"r"(from) : "x30", "memory");
}

uint32_t gr_board_gpu_on(void)
{
    volatile uint32_t stack[4];
    uint64_t deepest;
    for (uint32_t i = 0; i < SECRETS; i++)
        *gr_word(GR_CARVEOUT_BASE + i * 4) = *gr_word(GR_CARVEOUT_BASE + GR_CARVEOUT_BYTES - 4 - i * 4) = 0xa5;
    switch (*gr_word(GR_MAILBOX_AT + 12288)) {
    case 1: *(volatile uint32_t *)(gr_rom_start + 1024) = 0; break;
    case 2: *(volatile uint32_t *)gr_translation = 0; break;
    case 3: execute(stack); break;
    case 4: execute(gr_word(GR_RAM_BASE + 0x5000)); break;
    case 5: execute(gr_word(GR_CARVEOUT_BASE)); break;
    case 6: execute(gr_word(GR_MAILBOX_AT + 12288)); break;
    case 7: *gr_word(GR_RAM_BASE + 0xffc) = 0; break;
    case 8:
        __asm__ volatile("mov %0, sp\\n1:\\tstr xzr, [sp, #-16]!\\n\\tb 1b" : "=r"(deepest)::"memory");
        break;
    case 9: *gr_word(0x09000000) = 'x'; break; /* the normal world's UART */
    case 10: (void)*gr_word(GR_MAILBOX_AT - 4); break;
    default: break;
    }
    return 1;
}"""
# After the wipe, with the MMU off again: anything that is left shows in the exit status.
END = """\
void gr_board_end(uint32_t exit_status)
{
    for (uint32_t i = 0; i < 1024; i++)
        if (*gr_word(GR_CARVEOUT_BASE + i * 4) || *gr_word(GR_CARVEOUT_BASE + GR_CARVEOUT_BYTES - 4 - i * 4))
            exit_status = 7;"""
CASES = {
    "a write to code": (1, "code"),
    "a write to the tables": (2, "code"),
    "execution of the stack": (3, "stack"),
    "execution of data": (4, "ram"),
    "execution of the carve-out": (5, "carveout"),
    "execution of the mailbox": (6, "mailbox"),
    "a write below the stack": (7, "code"),
    "a stack that grows into its guard": (8, "code"),
    "a device that is not the board's": (9, "code"),
    "memory that is nobody's": (10, "code"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> firmware.Firmware:
    """A firmware that goes wrong where the mailbox says."""
    require(QEMU, "qemu-system-arm")
    folder = tmp_path_factory.mktemp("mmu")
    good = compiled(folder, "v3d42", mmu=True)
    changes = (
        ("qemu_virt.c", "uint32_t gr_board_gpu_on(void)\n{\n    return 0;\n}", FAULTS),
        ("qemu_virt.c", "void gr_board_end(uint32_t exit_status)\n{", END),
    )
    return firmware.load(plant(good, folder / "faulty", [Defect("", "", changes)]))


def ended(fw: firmware.Firmware, number: int) -> tuple[int, str]:
    """(exit status, what the firmware printed) with this number in the mailbox."""
    board = fw.board
    machine = machine_of(fw, "v3d42")
    at = board.mailbox_base - DRAM_BASE
    with dram(at + MIB) as (path, memory):
        request = REQUEST_MAGIC + MAILBOX_DATA_AT.to_bytes(8, "little") + (500).to_bytes(8, "little")
        memory[at : at + 32] = request + (1).to_bytes(4, "little") + bytes(4)
        memory[at + MAILBOX_DATA_AT : at + MAILBOX_DATA_AT + 4] = number.to_bytes(4, "little")
        with pytest.raises(RunnerError) as error:
            run(machine, path, None, 60)
    found = re.fullmatch(r"QEMU ended with status (\d+): (.*)", str(error.value))
    assert found, error
    return int(found[1]), found[2]


@pytest.mark.parametrize("name", CASES)
def test_a_fault_wipes_and_ends(faulty: firmware.Firmware, name: str) -> None:
    number, where = CASES[name]
    status, said = ended(faulty, number)
    assert status == 2, "an exception, and nothing is left of the secrets"
    found = re.fullmatch(r"!([0-9a-f]{8})", said)
    assert found, said
    at, board = int(found[1], 16), faulty.board
    stack = faulty.ram[0] + 0x1000
    begins, bytes_there = {
        "code": (faulty.entry, 0x5000),
        "stack": (stack, 0x4000),
        "ram": (stack + 0x4000, 0x1000),
        "carveout": (board.carveout_base & 0xFFFFFFFF, 4),
        "mailbox": (board.mailbox_base + MAILBOX_DATA_AT, 4),
    }[where]
    assert begins <= at < begins + bytes_there, said


def test_without_a_fault_it_ends_as_usual(faulty: firmware.Firmware) -> None:
    """The GPU did not answer, it says: so what the cases above show is theirs."""
    status, said = ended(faulty, 0)
    assert (status, said[0]) == (7, "="), "the secrets are there: nothing was loaded that would be wiped"
