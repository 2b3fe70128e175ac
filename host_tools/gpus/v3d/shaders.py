# SPDX-License-Identifier: BSD-2-Clause
"""Shaders of a V3D as text: where they end, and what each instruction is."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import cffi

from host_tools.gpus.family import Shader
from host_tools.vgpu import build

WORD_BYTES = 8
MAX_INSTRUCTIONS = 1 << 16
SWITCH_DELAY, BRANCH_DELAY = 2, 3  # instructions that are executed after a thread switch, a branch
SINGLE_SEGMENT = 2  # bit of CSD_QUEUED_CFG5
_SWITCH = re.compile(r"; thrsw\b")
_FORWARD = re.compile(r"bu?[.\w]* +(\d+)\b")  # a branch by so many bytes; there are others
_TEXT_BYTES = 256  # of one instruction, at most


@functools.cache
def _library() -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef("bool v3d_qpu_describe(uint64_t word, char *text, size_t size);")
    return ffi, ffi.dlopen(str(build.library()))


def describe(word: int) -> tuple[bool, str]:
    """An instruction as text, or False and why it is none.

    Raises:
        BuildError: the virtual GPU, which has the decoder, cannot be compiled.
    """
    ffi, library = _library()
    text = ffi.new("char[]", _TEXT_BYTES)
    decoded = bool(library.v3d_qpu_describe(word, text, _TEXT_BYTES))
    return decoded, ffi.string(text).decode()


def read_shader(read: Callable[[int, int], bytes | None], va: int, register: Callable[[str], int]) -> Shader:
    """The shader at a GPU address.

    It ends two instructions after the thread switch that ends the last section, or at the furthest branch target
    if that is beyond: as the virtual GPU reads it (read_code in vgpu/v3d_qpu_program.c).

    Raises:
        BuildError: as `describe`.
    """
    last_section = bool(register("core0.CSD_QUEUED_CFG5") & SINGLE_SEGMENT)
    code, lines, flaw = b"", [], ""
    furthest, end, switching, index = 0, -1, False, 0
    while end < 0 or index <= max(end, furthest):
        word = read(va + WORD_BYTES * index, WORD_BYTES) if index < MAX_INSTRUCTIONS else None
        if word is None:
            flaw = "it runs on into memory that is not mapped, or whose content is not known"
            break
        code += word
        decoded, text = describe(int.from_bytes(word, "little"))
        lines.append(text if decoded else f"no instruction: {text}")
        if not decoded and index >= furthest:
            flaw = f"instruction {index} is none: {text}"
            break
        branch = _FORWARD.match(text) if decoded else None
        if branch and index + BRANCH_DELAY + 1 + int(branch[1]) // WORD_BYTES < MAX_INSTRUCTIONS:
            furthest = max(furthest, index + BRANCH_DELAY + 1 + int(branch[1]) // WORD_BYTES)
        switch = decoded and _SWITCH.search(text) is not None
        if switch and switching:
            last_section = True
        elif switch and last_section and end < 0:
            end = index + SWITCH_DELAY
        switching = switch
        index += 1
    return Shader(code, tuple(lines), flaw)
