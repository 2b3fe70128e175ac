# SPDX-License-Identifier: BSD-2-Clause
"""Defects for firmware: changes to generated sources, each with what an audit must say about it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from signing.keys import Algorithm, generate
from signing.sign import FileSigner

WITNESS = "gr_witness"  # makes a constant or function stay in the firmware
FOREIGN = ", ".join(f"{byte:#04x}" for byte in FileSigner(generate(Algorithm.ES256)).public.raw)


@dataclass(frozen=True)
class Defect:
    """A defect.

    Attributes:
        rule: that its finding breaks.
        where: what is part of the finding's place or text.
        changes: (file, old text, new text); the old text is there once.
        group: those of one group can be in one firmware; defects of a group do not hide each other.
        also: rules that break as a consequence.
        in_log: it is for firmware that keeps a replay log.
    """

    rule: str
    where: str
    changes: tuple[tuple[str, str, str], ...]
    group: int = 0
    also: frozenset[str] = frozenset()
    in_log: bool = False


def _at_start(*lines: str) -> tuple[tuple[str, str, str], ...]:
    """Statements that run first of all."""
    return (
        ("qemu_virt.c", "void gr_board_start(void) {}", f"void gr_board_start(void)\n{{\n{' '.join(lines)}\n}}"),
    )


def _at_power(*lines: str, before: str = "") -> tuple[tuple[str, str, str], ...]:
    """Statements that run when the GPU is switched on."""
    old = "uint32_t gr_board_gpu_on(void)\n{"
    return (("qemu_virt.c", old, f"{before}\n{old}\n{' '.join(lines)}"),)


_REFUSE = "        return GR_STATUS_REGISTER;\n"
_LIMITS = f"    if (value != ((value & limits->bits) | limits->always) || value != kept)\n{_REFUSE}"
_WAIT = "const bool timed_out = gr_port_now_us() - start >= timeout_us;"
DEFECTS = {
    "a store whose value is not compared with the limits": Defect(
        "GF502", "without the comparison", (("replayer.c", _LIMITS, ""),)
    ),
    "a store whose register is not known to be allowed": Defect(
        "GF502",
        "the test of its result",
        (
            ("replayer.c", f"    if (!limits || !again)\n{_REFUSE}", ""),
            ("replayer.c", _LIMITS, ""),
        ),
        group=1,
    ),
    "a store to a register that the trace names": Defect(
        "GF502",
        "without the look-up",
        (("replayer.c", "    r->report.expected = a->value & a->a;\n", "    gr_port_write32(offset, a->b);\n"),),
        group=1,
    ),
    "a store to a register that the driver does not write": Defect(
        "GF501",
        "gr_board_gpu_off",
        (
            (
                "qemu_virt.c",
                "uint32_t gr_board_gpu_off(void)\n{",
                "uint32_t gr_board_gpu_off(void);\n__attribute__((noinline)) uint32_t gr_board_gpu_off(void)\n"
                "{\n    gr_gpu_write(0x1238, 1);",
            ),
        ),
    ),
    "a store to another device": Defect("GF503", "0x9000000", _at_start("*gr_word(0x09000000) = 1;"), group=1),
    "recursion": Defect(
        "GF301",
        "gr_depth",
        _at_power(
            "gr_depth(*gr_word(GR_MAILBOX_BASE));",
            before="uint32_t gr_depth(uint32_t n);\n__attribute__((noinline)) uint32_t gr_depth(uint32_t n)\n{\n"
            '    __asm__ volatile("" ::: "memory");\n'
            "    return n & 1 ? gr_depth(n * 3) + gr_depth(n / 2) : n;\n}",
        ),
        group=1,
    ),
    "a stack that is too small": Defect(
        "GF302",
        "gr_main",
        (("firmware.ld", "#ifndef GR_MMU\n        . += 0x4000;", "#ifndef GR_MMU\n        . += 0x1000;"),),
    ),
    "a frame of unknown size": Defect(
        "GF303",
        "by an amount that the code does not show",
        _at_start(
            "const uint32_t n = *gr_word(GR_MAILBOX_BASE); uint8_t some[n]; some[n / 2] = 1;",
            '__asm__ volatile("" ::"r"(some) : "memory");',
        ),
        group=2,
    ),
    "a writable code segment": Defect(
        "GF101", "segment 0", (("firmware.ld", "code PT_LOAD FLAGS(5)", "code PT_LOAD FLAGS(7)"),)
    ),
    "a secure monitor call": Defect(
        "GF201",
        "smc #0x0",
        (("port.c", "    gr_port_put('\\n');", "    __asm__ volatile(\"smc #0\");\n    gr_port_put('\\n');"),),
    ),
    "cache maintenance": Defect(
        "GF201",
        "dc civac",
        (
            (
                "main.c",
                '    __asm__ volatile("dsb sy" ::: "memory");',
                '    __asm__ volatile("dc civac, %0\\n\\tdsb sy" ::"r"(response) : "memory");',
            ),
        ),
    ),
    "a jump through a register": Defect(
        "GF304",
        "br x",
        _at_power(
            "const uint64_t to = *gr_word(GR_MAILBOX_BASE);", '__asm__ volatile("br %0" ::"r"(to) : "memory");'
        ),
        group=2,
        also=frozenset(
            ("GF103", "GF104", "GF306", "GF605", "GF701")
        ),  # where the jump leads is not known, nor what follows
    ),
    "a wait without an end": Defect(
        "GF401", "gr_port_wait", (("port.c", _WAIT, "const bool timed_out = timeout_us > start; (void)start;"),)
    ),
    "code that nothing calls": Defect(
        "GF104",
        WITNESS,
        (
            (
                "firmware.ld",
                "        KEEP(*(.text.vectors))",
                "        KEEP(*(.text.vectors))\n        KEEP(*(.text.hidden))",
            ),
            (
                "main.c",
                "/* Whatever was going on",
                f'__attribute__((used, section(".text.hidden"))) static void {WITNESS}(void)\n'
                "{\n    gr_exit('x', 1, 1);\n}\n\n/* Whatever was going on",
            ),
        ),
    ),
    "bytes between functions": Defect(
        "GF103",
        "nothing reaches or refers to it",
        (("startup.S", "    b gr_exception  ", "    b gr_exception\n    .word 0x12345678, 0xd65f03c0  "),),
    ),
    "a second key": Defect(
        "GF603",
        "a public key of P-256",
        (
            (
                "main.c",
                "static uint8_t *shared(",
                f"__attribute__((used)) static const uint8_t {WITNESS}_key[] = {{{FOREIGN}}};\n\n"
                "static uint8_t *shared(",
            ),
            (
                "main.c",
                "    gr_board_start();",
                f'    gr_board_start();\n    __asm__ volatile("" ::"r"({WITNESS}_key));',
            ),
        ),
    ),
    "a widened allow list": Defect(
        "GF604",
        "(hub.MMU_PT_PA_BASE)",
        (("replayer.c", "{0x0481, 8, 1, 0}", "{0x0481, 8, 3, 9}"),),
    ),
    "a bit more in the limits": Defect(
        "GF604",
        "table limits",
        (("replayer.c", "{0x0000003au, 0x00000000u, 0}", "{0x0000003eu, 0x00000000u, 0}"),),
    ),
    "another profile's hash": Defect(
        "GF605",
        "does not compare",
        (
            (
                "replayer.c",
                "#define GR_PROFILE_ID UINT64_C(",
                "#define GR_OTHER(id) (UINT64_C(id) ^ 1)\n#define GR_PROFILE_ID GR_OTHER(",
            ),
        ),
    ),
    "another mailbox": Defect(
        "GF606", "mailbox_base", (("board.h", "GR_MAILBOX_BASE 0xc0000000", "GR_MAILBOX_BASE 0x50000000"),)
    ),
    "a wipe that is missing": Defect(
        "GF701",
        "gr_wipe",
        (
            (
                "replayer.c",
                "    gr_wipe(r->high, (uint64_t)(r->memory.base + r->memory.bytes - r->high));\n",
                "",
            ),
        ),
    ),
    "a signature that is verified once": Defect(
        "GF701",
        "check_signature",
        (
            (
                "replayer.c",
                "        status = gr_check_signature_again(l);\n",
                "        l->state ^= SECOND_VERDICT;\n",
            ),
        ),
    ),
    "a log that is not written": Defect(
        "GF701",
        "gr_log_append",
        (("evidence.c", "!gr_log_append(&e.log, GR_LOG_KIND_REPLAY, report)", "e.log.failed"),),
        group=3,
        in_log=True,
    ),
    "a log without its codes": Defect(
        "GF701",
        "gr_hmac",
        (
            (
                "replayer.c",
                "gr_hmac(key.bytes, e, offsetof(struct gr_log_entry, mac), e->mac)",
                "true",
            ),
        ),
        group=3,
        in_log=True,
    ),
}


def plant(good: Path, folder: Path, defects: Iterable[Defect]) -> Path:
    """A compiled folder with defects, of a copy of a good one; only what has changed is compiled again."""
    shutil.copytree(good, folder)
    for defect in defects:
        for name, old, new in defect.changes:
            path = folder / name
            text = path.read_text(encoding="utf-8")
            assert text.count(old) == 1, (name, old, text.count(old))
            path.write_text(text.replace(old, new), encoding="utf-8")
    subprocess.run(["make", "-s", "-C", str(folder)], check=True)
    return folder
