# SPDX-License-Identifier: BSD-2-Clause
"""The shader that a V3D's job names."""

from __future__ import annotations

from collections.abc import Callable

from host_tools.families.family import Shader
from host_tools.gpus.v3d.disassembly import MAX_INSTRUCTIONS, WORD_BYTES, program
from trace_format.profile import Profile

SINGLE_SEGMENT = 2  # bit of CSD_QUEUED_CFG5


def read_shader(
    gpu: Profile, read: Callable[[int, int], bytes | None], va: int, register: Callable[[str], int]
) -> Shader:
    """The shader at a GPU address, to the end of its thread.

    Raises:
        BuildError: the virtual GPU, which has the disassembler, cannot be compiled.
    """
    runs_on = False

    def word(index: int) -> int | None:
        nonlocal runs_on
        data = read(va + WORD_BYTES * index, WORD_BYTES)
        runs_on = data is None
        return int.from_bytes(data, "little") if data is not None else None

    words = program(gpu.name, word, bool(register("core0.CSD_QUEUED_CFG5") & SINGLE_SEGMENT))
    flaw = ""
    if runs_on or len(words) == MAX_INSTRUCTIONS:
        flaw = "it runs on into memory that is not mapped, or whose content is not known"
    elif not words[-1].valid:
        flaw = f"instruction {len(words) - 1} is none: {words[-1].text}"
    return Shader(
        b"".join(found.word.to_bytes(WORD_BYTES, "little") for found in words),
        tuple(found.text if found.valid else f"no instruction: {found.text}" for found in words),
        flaw,
    )
