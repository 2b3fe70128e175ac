# SPDX-License-Identifier: BSD-2-Clause
"""Back doors for firmware: changes to generated sources that a person with bad intent would make, each with what
an audit of the image alone says of it. Built again, every one of them differs from the sources.
"""

from __future__ import annotations

from tests.support.planted import Defect

# Of firmware whose EL3 has an MMU.
WITH_MMU = frozenset(("the MMU is turned off on a word of the mailbox",))
_TRACE = "*(volatile uint32_t *)(uintptr_t)(GR_MAILBOX_BASE + 0x100000)"  # the normal world writes there
_WORD = "*(volatile uint64_t *)(uintptr_t)(GR_MAILBOX_BASE + 0x100008)"
_CALL = "(*(void (*)(void))(uintptr_t)({}))();"
_NUMBER = "    load_number(r, signature);\n"
_WRITE = "    if (status == GR_STATUS_OK)\n        gr_port_write32(index * 4, kept);\n"
_AGAIN = "    return check_signature(l, gr_port_key_again(), SECOND_VERDICT);"
_FIRST = "        status = check_signature(l, l->policy->key, FIRST_VERDICT);"
_ROLLBACK = "    if (gr_load32(m + GR_MANIFEST_AT_SECURITY_VERSION) < l->policy->min_security_version)"
_OWN = "l->head[200] ? l->head + 256"
_EXCESS = "    if (gr_stack_excess())\n"
_EXPECTED = "    r->report.expected = a->value & a->a;\n"
_PLACE = "        uint8_t *from = data, *to = r->memory.base + place;\n"
_WIPE = "    gr_wipe(r->high, (uint64_t)(r->memory.base + r->memory.bytes - r->high));\n"
_START = "    gr_board_start();\n"


def _at_start(*lines: str, before: str = "") -> tuple[tuple[str, str, str], ...]:
    """Statements of gr_main, and declarations in front of it."""
    found = [("main.c", _START, _START + "".join(f"    {line}\n" for line in lines))]
    if before:
        old = "static const struct gr_memory memory"
        found.append(("main.c", old, f"{before}\n\n{old}"))
    return tuple(found)


def _at_end(*lines: str, before: str = "") -> tuple[tuple[str, str, str], ...]:
    """The same, once a trace was replayed."""
    return (
        ("main.c", _EXCESS, "".join(f"    {line}\n" for line in lines) + _EXCESS),
        *_at_start(before=before)[1:],
    )


def _at_action(*lines: str) -> tuple[tuple[str, str, str], ...]:
    """Statements of the core, for each action."""
    return (("replayer.c", _EXPECTED, _EXPECTED + "".join(f"    {line}\n" for line in lines)),)


# Copies of the carve-out to the mailbox, on every board and both GPUs.
LEAKS = {
    "by memcpy": Defect(
        "GF505", "to the mailbox", _at_end("memcpy(shared(0x100000), replayer.memory.base, 0x8000);")
    ),
    "by memcpy, of the trace's head": Defect(
        "GF505", "to the mailbox", _at_end("memcpy(shared(0x100000), replayer.slots, 0x1000);")
    ),
    "by words": Defect(
        "GF505",
        "to the mailbox",
        _at_end(
            "for (uint64_t i = 0; i < 0x8000; i += 8)",
            "    *(volatile uint64_t *)(void *)shared(0x100000 + i) = "
            "*(volatile uint64_t *)(void *)(replayer.memory.base + i);",
        ),
    ),
    "by bytes": Defect(
        "GF505",
        "to the mailbox",
        _at_end(
            "for (uint64_t i = 0; i < 0x8000; i++)",
            "    *(volatile uint8_t *)shared(0x100000 + i) = *(volatile uint8_t *)(replayer.memory.base + i);",
        ),
    ),
    "by a function of its own": Defect(
        "GF505",
        "gr_give",
        _at_end(
            "gr_give(shared(0x100000), replayer.memory.base, 0x8000);",
            before="__attribute__((noinline)) static void gr_give("
            "volatile uint8_t *to, const volatile uint8_t *from, uint32_t n)\n"
            "{\n    for (uint32_t i = 0; i < n; i++)\n        to[i] = from[i];\n}",
        ),
    ),
    "by memcpy, to a caller's buffer": Defect(
        "GF505", "to the mailbox", _at_action("if (a->a == 0x5a) memcpy(r->bound[0], r->memory.base, 0x1000);")
    ),
    "by words, to a caller's buffer": Defect(
        "GF505",
        "mailbox",
        _at_action(
            "for (uint32_t i = 0; a->a == 0x5a && i < 512; i++)",
            "    ((volatile uint64_t *)(void *)r->bound[0])[i] = "
            "((volatile uint64_t *)(void *)r->memory.base)[i];",
        ),
    ),
    "by the report": Defect(
        "GF505",
        "then copied to the mailbox",
        _at_action(
            "if (a->a == 0x5a) r->report.expected = *(volatile uint32_t *)(void *)(r->memory.base + a->b);"
        ),
    ),
    "through a buffer": Defect(
        "GF505",
        "then copied to the mailbox",
        _at_start(
            "uint64_t words[8];",
            "for (uint32_t i = 0; i < 8; i++) words[i] = ((volatile uint64_t *)(uintptr_t)GR_CARVEOUT_BASE)[i];",
            '__asm__ volatile("" ::"r"(words) : "memory");',
            "memcpy(shared(0x100000), words, sizeof words);",
        ),
    ),
}
# The same in firmware with a replay log.
IN_LOG = {
    "by the log's entries": Defect(
        "GF505",
        "gr_log_append",
        (
            (
                "replayer.c",
                "    e.retries = report->retries;\n",
                "    e.retries = report->retries;\n"
                "    e.seen = *(volatile uint32_t *)(uintptr_t)(GR_CARVEOUT_BASE + report->action * 4);\n",
            ),
        ),
    ),
}
# Found in the image.
FOUND = {
    "the GPU's MMU goes off on a word of the mailbox, after the masking": Defect(
        "GF502",
        "the limits as the last that changes the value",
        (
            (
                "replayer.c",
                _WRITE,
                "    if (status == GR_STATUS_OK)\n        gr_port_write32(index * 4, "
                f"index == 0x480 && {_TRACE} == 0x5a ? kept & ~1u : kept);\n",
            ),
        ),
    ),
    "a call into the mailbox": Defect(
        "GF306",
        "into the mailbox",
        _at_start(f"if ({_TRACE} == 0x5a) " + _CALL.format("GR_MAILBOX_BASE + 0x200000")),
    ),
    "a call where the mailbox says": Defect(
        "GF306", "where the mailbox says", _at_start(f"if ({_TRACE} == 0x5a) " + _CALL.format(_WORD))
    ),
    "a return where the mailbox says": Defect(
        "GF306",
        "where the mailbox says",
        _at_start(
            f"if ({_TRACE} == 0x5a) gr_go({_WORD});",
            before="__attribute__((noinline)) static void gr_go(uint64_t to)\n{\n"
            '    __asm__ volatile("mov x30, %0\\n\\tret" ::"r"(to));\n}',
        ),
        also=frozenset(("GF103",)),  # the compiler's own return behind it
    ),
    "exceptions that lead into the mailbox": Defect(
        "GF306",
        "exceptions lead elsewhere",
        _at_start('__asm__ volatile("msr vbar_el3, %0" ::"r"((uint64_t)GR_MAILBOX_BASE + 0x200000));'),
    ),
    "code that is copied to the stack": Defect(
        "GF306",
        "to the stack",
        _at_start(
            "uint32_t code[16];",
            "for (uint32_t i = 0; i < 16; i++) code[i] = (&" + _TRACE + ")[i];",
            '__asm__ volatile("isb" ::"r"(code) : "memory");',
            _CALL.format("code"),
        ),
    ),
    "code among constants": Defect(
        "GF306",
        "where no function begins",
        _at_start(
            "const uint32_t *volatile at = gr_numbers;",
            '__asm__ volatile("" ::"r"(at));',
            "uint64_t to;",
            '__asm__("adr %0, gr_numbers" : "=r"(to));',
            _CALL.format("to"),
            before="__attribute__((used)) const uint32_t gr_numbers[] = {0xd2800000, 0xd65f03c0};",
        ),
    ),
    "the carve-out is copied to the mailbox": Defect(
        "GF505",
        "to the mailbox",
        _at_start(
            f"if ({_TRACE} == 0x5a) memcpy(shared(0x200000), (void *)(uintptr_t)GR_CARVEOUT_BASE, 0x100000);"
        ),
    ),
    "the carve-out is copied to the mailbox by a loop": Defect(
        "GF505",
        "gr_main",
        _at_start(
            "for (uint64_t i = 0; i < 0x100000; i += 8)",
            "    *(volatile uint64_t *)(void *)shared(0x200000 + i) = "
            "*(volatile uint64_t *)(uintptr_t)(GR_CARVEOUT_BASE + i);",
        ),
    ),
    "a store where the mailbox says": Defect(
        "GF504",
        "read from the mailbox",
        _at_start(f"if ({_TRACE} == 0x5a) *(volatile uint32_t *)(uintptr_t){_WORD} = 1;"),
    ),
    "the key is the trace's": Defect(
        "GF608",
        "the key in the code",
        (
            ("replayer.c", _FIRST, _FIRST.replace("l->policy->key", "l->head + 256")),
            ("replayer.c", _AGAIN, _AGAIN.replace("gr_port_key_again()", "l->head + 256")),
        ),
    ),
    "the key is the trace's if a byte says so": Defect(
        "GF608",
        "the key in the code",
        (
            ("replayer.c", _FIRST, _FIRST.replace("l->policy", f"{_OWN} : l->policy")),
            ("replayer.c", _AGAIN, _AGAIN.replace("gr_port", f"{_OWN} : gr_port")),
        ),
    ),
    "the MMU is turned off on a word of the mailbox": Defect(
        "GF607",
        "the code in 2",
        (("main.c", _EXCESS, f"    if ({_TRACE} == 0x5a) gr_mmu_off();\n{_EXCESS}"),),
    ),
}
# Not found in the image, by kind (`host_tools.audit_firmware.rules.UNKNOWN`), which the report says is not known.
NOT_FOUND: dict[str, dict[str, tuple[tuple[str, str, str], ...]]] = {
    "answers": {
        "a signature is accepted on a byte": (
            ("crypto.c", _NUMBER, "    if (signature[0] == 0x5a)\n        return good;\n" + _NUMBER),
        ),
        "a weaker comparison of versions": (
            ("replayer.c", _ROLLBACK, _ROLLBACK.replace("SECURITY_VERSION) <", "SECURITY_VERSION) + 2 <")),
        ),
    },
    "pointers": {
        "a store through a pointer that was kept": (
            (
                "replayer.c",
                _EXPECTED,
                f"{_EXPECTED}    if (a->a == 0x5a)\n"
                "        *(uint32_t *)(uintptr_t)*(uint64_t *)(void *)r->memory.base = a->b;\n",
            ),
        ),
    },
    "hops": {
        "the carve-out is copied to the mailbox by a buffer that is not on the stack": _at_start(
            "volatile uint64_t *const kept = (volatile uint64_t *)(uintptr_t)0x0e800000;",
            "for (uint32_t i = 0; i < 8; i++) kept[i] = ((volatile uint64_t *)(uintptr_t)GR_CARVEOUT_BASE)[i];",
            "for (uint32_t i = 0; i < 8; i++) ((volatile uint64_t *)(void *)shared(0x200000))[i] = kept[i];",
        ),
    },
    "lookups": {
        "a slot leaves from another place": (
            ("replayer.c", _PLACE, _PLACE.replace("place;", "(va == 0x5a000 ? 0 : place);")),
        ),
    },
    "extents": {
        "half of the carve-out is wiped": (
            ("replayer.c", _WIPE, _WIPE.replace("r->high));", "r->high) / 16 * 8);")),
        ),
    },
    "steps": {"the carve-out is not wiped": (("replayer.c", _WIPE, ""),)},
}
