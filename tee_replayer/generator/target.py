# SPDX-License-Identifier: BSD-2-Clause
"""What the C core must know of one GPU, as C source: identity, limits, register policy. Made from its profile."""

from __future__ import annotations

import re
from pathlib import Path

from trace_format.errors import ProfileError
from trace_format.files import read_file_text
from trace_format.profile import Block, Profile, load, names
from trace_format.registers import Register

HERE = Path(__file__).resolve().parents[1]
READ, WRITE = 1, 2  # GR_ACCESS_* of core/internal.h
MAX_RUN = 15  # struct gr_register there has so many bits


def drivers() -> list[str]:
    """Names of the GPUs that have a nano driver."""
    return [name for name in names() if _driver(load(name)).exists()]


def driver_source(profile: Profile) -> Path:
    """The nano driver's C file; ProfileError when this GPU has none."""
    if profile.name not in drivers():
        raise ProfileError(f"no nano driver for GPU {profile.name}; there are: {', '.join(drivers())}")
    return _driver(profile)


def driver_files(profile: Profile) -> tuple[Path, ...]:
    """The driver's C file, and before it the headers that it shares with others."""
    source = driver_source(profile)
    names = re.findall(r'^#include "(\w+\.h)"', read_file_text(source), re.MULTILINE)
    return (*(path for name in names if (path := source.parent / name).exists()), source)


def _driver(profile: Profile) -> Path:
    return HERE / "drivers" / f"{profile.driver}.c"


def register_name(register: Register) -> str:
    """Name in C: GR_HUB_MMU_CTL."""
    return "GR_" + re.sub(r"\W", "_", register.name).upper()


Limits = tuple[int, int, int]  # bits that a write may set, that it must set, and 1: only while the GPU is idle


def rows(profile: Profile) -> list[tuple[int, int, int, Limits, str]]:
    """The registers that a trace may touch: (first index, count, access, limits, name of the first).

    In descending order, and a last row without any register ends the core's search; a GPU's jobs are started by
    registers that lie high, so it is short. Consecutive registers with the same rights share a row. Of repeated
    blocks only the first is there: see `first_of_block`.
    """
    found: list[tuple[int, int, int, Limits, str]] = []
    for offset in sorted(profile.by_offset):
        register = profile.by_offset[offset]
        if any(b.base + b.bytes <= offset < b.base + b.bytes * b.count for b in repeated(profile)):
            continue
        access = (READ if register.readable else 0) | (WRITE if register.may_write else 0)
        limits = (register.may_set, register.replay_set, int(register.replay_idle))
        if not access:
            continue
        last = found[-1] if found else None
        if last and last[0] + last[1] == register.index and last[2:4] == (access, limits) and last[1] < MAX_RUN:
            found[-1] = (last[0], last[1] + 1, access, limits, last[4])
        else:
            found.append((register.index, 1, access, limits, register.name))
    return [*reversed(found), (0, 0, 0, (0, 0, 0), "no register")]


def repeated(profile: Profile) -> list[Block]:
    """Blocks that are there several times, and lie so that masking an offset leads to the first."""
    return [
        b for b in profile.blocks.values() if b.count > 1 and b.bytes.bit_count() == 1 and b.base % b.bytes == 0
    ]


def first_of_block(profile: Profile) -> str:
    """C expression: the index of the register in the first of repeated blocks that stands for that of `index`."""
    text = "(index)"
    for block in repeated(profile):
        first, words = block.base // 4, block.bytes // 4
        inside = f"(index) - {first:#x}u < {words * block.count:#x}u"
        text = f"({inside} ? {first:#x}u + ((index) & {words - 1:#x}u) : {text})"
    return text


def header(profile: Profile) -> str:
    """The text of `gr_target.h`."""
    lines = [
        f"/* {profile.title}: from the GPU profile {profile.name}; do not edit. */",
        "#ifndef GRAMOPHONE_TARGET_H",
        "#define GRAMOPHONE_TARGET_H",
        "",
        f"#define GR_TARGET_GPU {int(profile.gpu)}u",
        f"#define GR_PROFILE_ID UINT64_C({profile.profile_id:#018x})",
        f"#define GR_VA_BITS {profile.mmu['va_bits']}",
        f"#define GR_PA_BITS {profile.mmu['pa_bits']}",
        f"#define GR_ADDRESS_SPACES {profile.address_spaces}u",
        f"#define GR_INTERRUPT_LINES {len(profile.interrupts)}u",
        f"#define GR_MMU_FORBIDS_EXECUTION {int(profile.forbids_execution)}",
        "",
        f"#define GR_ID_OFFSET {profile.identity.offset:#06x}u",
        f"#define GR_ID_MASK {profile.identity_mask:#010x}u",
        f"#define GR_ID_VALUE {profile.identity_value:#010x}u",
    ]
    for name, field in (("CORES", profile.cores), ("REVISION", profile.revision)):
        lines += [
            f"#define GR_{name}_OFFSET {field.register.offset:#06x}u",
            f"#define GR_{name}_SHIFT {field.shift}",
            f"#define GR_{name}_MASK {(1 << field.bits) - 1:#x}u",
        ]
    cores = "((uint64_t)(value))" if profile.cores_are_mask else "(((uint64_t)1 << (value)) - 1)"
    lines.append(f"#define GR_CORES_TO_MASK(value) {cores}")
    lines += _used(profile)
    lines += _streams(profile)
    table = rows(profile)
    kinds = sorted({limits for *_, limits, _ in table})
    starts = " || ".join(f"(index) == {job.start.index:#06x}" for job in profile.jobs)
    lines += [
        "",
        "/* What a trace may do: first register (byte offset / 4), number of registers, access (1 read, 2 write),",
        " * which of the limits below. */",
        f"#define GR_FIRST_OF_BLOCK(index) {first_of_block(profile)}",
        "/* Whether writing a register, by its offset / 4, starts a job. */",
        f"#define GR_STARTS_JOB(index) ({starts})",
        *_macro(
            "GR_REGISTER_ROWS",
            [
                f"{{{index:#06x}, {count}, {access}, {kinds.index(limits)}}}, /* {name}"
                f"{f' and {count - 1} more' if count > 1 else ''} */"
                for index, count, access, limits, name in table
            ],
        ),
        "/* Bits that a write may set, bits that it must set, and whether the GPU must be idle. */",
        *_macro(
            "GR_REGISTER_LIMITS",
            [f"{{{bits:#010x}u, {always:#010x}u, {idle}}}," for bits, always, idle in kinds],
        ),
    ]
    return "\n".join([*lines, "", "#endif", ""])


def _used(profile: Profile) -> list[str]:
    """Of the MMU and of registers, what the nano driver uses."""
    source = "".join(read_file_text(path) for path in driver_files(profile))
    used = [r for r in profile.registers.values() if re.search(rf"\b{register_name(r)}\b", source)]
    lines = [
        f"#define GR_MMU_{name.upper()} UINT64_C({profile.mmu[name]:#x})"
        for name in ("config", "attributes")
        if name in profile.mmu
    ]
    lines += ["", "/* Registers that the nano driver uses: byte offsets in the window. */"]
    return lines + [f"#define {register_name(r)} {r.offset:#06x}u" for r in used]


def _streams(profile: Profile) -> list[str]:
    """What the instructions of a trace's command streams may be."""
    if profile.streams is None:
        return []
    rules = profile.streams
    rows = [f"[{number}] = UINT64_C({bits:#x}), /* {name} */" for name, (number, bits) in rules.opcodes.items()]
    comment = (
        "/* Instructions of command streams: bits that each may have, by its opcode; destinations lie below. */"
    )
    return ["", comment, f"#define GR_STREAM_REGISTERS {rules.registers}u", *_macro("GR_STREAM_RULES", rows)]


def _macro(name: str, rows: list[str]) -> list[str]:
    return [f"#define {name} \\", *(f"    {row} \\" for row in rows[:-1]), f"    {rows[-1]}"]
