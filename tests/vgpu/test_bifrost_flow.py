# SPDX-License-Identifier: BSD-2-Clause
"""Whether words that a Bifrost program loads may decide what it accesses, as the virtual Mali finds."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from host_tools.vgpu.binding import ACCESS_COMMAND, VirtualGpu
from tests.support import bifrost_asm as asm
from tests.support.bifrost_asm import Tuple, block_high, clause, header, load, sources, store
from tests.support.bifrost_board import CODE, DEFAULT_PRELOAD, INPUT, OUTPUT, ShaderBoard
from tests.support.mali_model import DATA, VA

IDS, GROUP, LOADED, KEPT = 60, 57, 40, 44  # registers: the thread's number, the group's (0); others
PRELOAD = DEFAULT_PRELOAD | 1 << 9  # the group's number too
IF_NOT_ZERO = 0x6F800
STORAGE = OUTPUT + 0x400  # 64 threads of 32 bytes; what lies after it belongs to threads that do not run
PUT = clause([Tuple(block_high(IDS, 0x48), add=asm.STORE[1] | asm.THREAD << 6 | sources(asm.FAU_LOW,
    asm.FAU_HIGH))],
             header(message=asm.STORE_MESSAGE, staging=IDS), [0])  # fmt: skip
PUT_LOADED = clause([Tuple(block_high(IDS, 0x48), add=asm.STORE[1] | asm.THREAD << 6 | sources(asm.FAU_LOW,
    asm.FAU_HIGH))], header(message=asm.STORE_MESSAGE, staging=LOADED), [0])  # fmt: skip
TAKE = clause([Tuple(block_high(IDS, 0x48), add=asm.LOAD[1] | asm.THREAD << 6 | sources(asm.FAU_LOW,
    asm.FAU_HIGH))],
              header(message=asm.LOAD_MESSAGE, staging=KEPT), [0])  # fmt: skip


def end_if_not_zero(register: int) -> bytes:
    return clause([Tuple(block_high(register, 0), add=IF_NOT_ZERO | sources(0, 0, asm.FAU_LOW))], header())


# By what decides: the program, and whether that is what it loads.
PROGRAMS = {
    "the thread's number": (load(0, 1, 2, LOADED) + store(1, 1, 2, LOADED), False),
    "a loaded word is an address": (load(0, 1, 2, LOADED) + store(1, 1, 2, IDS, index=LOADED), True),
    "a loaded word is where to load": (load(0, 1, 2, LOADED) + load(0, 1, 2, KEPT, index=LOADED)
                                       + store(1, 1, 2, KEPT), True),
    "a branch by the thread's number": (load(0, 1, 2, LOADED) + end_if_not_zero(IDS)
                                        + store(1, 1, 2, LOADED), False),
    "a branch by a loaded word": (load(0, 1, 2, LOADED) + end_if_not_zero(LOADED) + store(1, 1, 2, IDS), True),
    "an address that was kept in storage": (PUT + TAKE + store(1, 1, 2, IDS, index=KEPT), False),
    "a loaded word that was kept in storage": (load(0, 1, 2, LOADED) + PUT_LOADED + TAKE
                                               + store(1, 1, 2, IDS, index=KEPT), True),
    "storage that nothing was put into": (TAKE + store(1, 1, 2, IDS, index=KEPT), True),
    "a register that nothing was put into": (store(1, 1, 2, IDS, index=KEPT), True),
    "a word that all threads load": (load(0, 1, 2, LOADED, index=GROUP)
                                     + store(1, 1, 2, IDS, index=LOADED), False),
    "such a word decides where another is": (load(0, 1, 2, LOADED, index=GROUP)
                                             + load(0, 1, 2, KEPT, index=LOADED)
                                             + store(1, 1, 2, IDS, index=KEPT), False),
    "such a word is written": (load(1, 1, 2, LOADED, index=GROUP) + store(1, 1, 2, IDS, index=LOADED), True),
    "such a word decides a branch": (load(0, 1, 2, LOADED, index=GROUP) + end_if_not_zero(LOADED)
                                     + store(1, 1, 2, IDS), False),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_decides_an_access(name: str) -> None:
    board = ShaderBoard(track_access=True)
    program, varies = PROGRAMS[name]
    board.put_words(INPUT, np.zeros(256, np.uint32))
    board.prepare(program, storage=struct.pack("<IIQQ", 1, 31, STORAGE, 0), preload=PRELOAD)
    assert board.go() == 1
    assert board.gpu.access_varies is varies


def commands(board: ShaderBoard, va: int) -> list[int]:
    """Bytes of a page that decide what the job does."""
    flags = board.gpu.access_map()[DATA + va - VA]
    return [int(at) for at in np.flatnonzero(flags & ACCESS_COMMAND)]


def test_words_that_decide_are_marked() -> None:
    board = ShaderBoard(track_access=True)
    program = load(0, 1, 2, LOADED, index=GROUP) + load(0, 1, 2, KEPT) + store(1, 1, 2, KEPT, index=LOADED)
    board.prepare(program, preload=PRELOAD)
    assert board.go() == 1
    assert (board.gpu.access_varies, commands(board, INPUT)) == (False, [0, 1, 2, 3])


@pytest.mark.parametrize(("threads", "varies"), [(16, False), (17, True)])
def test_only_few_words_may_decide(threads: int, varies: bool) -> None:
    board = ShaderBoard(track_access=True)
    board.put_words(INPUT, np.arange(256, dtype=np.uint32))
    board.prepare(PROGRAMS["a loaded word is an address"][0], size=(threads, 1, 1))
    assert board.go() == 1
    assert board.gpu.access_varies is varies


def test_many_loads() -> None:
    """More than one analysis follows: the 70th and the first decide, those between do not."""
    board = ShaderBoard(track_access=True)
    between = b"".join(load(1, 1, 2, KEPT) for _ in range(68))
    program = load(0, 1, 2, 30, index=GROUP) + between + load(0, 1, 2, LOADED) + store(1, 1, 2, IDS, index=LOADED)
    board.prepare(program, preload=PRELOAD)
    assert board.go() == 1
    assert board.gpu.access_varies
    board.gpu.clear_access()
    board.prepare(program.replace(load(0, 1, 2, LOADED), load(0, 1, 2, LOADED, index=GROUP)), preload=PRELOAD)
    assert board.go() == 1
    assert (board.gpu.access_varies, commands(board, INPUT)) == (False, [0, 1, 2, 3])


def test_an_access_to_another_threads_storage_is_not_followed() -> None:
    board = ShaderBoard(track_access=True)
    board.prepare(PUT + TAKE + store(1, 1, 2, IDS, index=KEPT), uniforms=(INPUT, STORAGE),
                  storage=struct.pack("<IIQQ", 1, 31, STORAGE, 0))  # fmt: skip
    assert board.go() == 1
    assert board.gpu.access_varies


def test_descriptors_and_code_are_commands() -> None:
    board = ShaderBoard(track_access=True)
    board.prepare(load(0, 1, 2, LOADED) + store(1, 1, 2, LOADED))
    assert board.go() == 1
    seen = {pa: flags & ACCESS_COMMAND != 0 for pa, flags in board.gpu.access_map().items()}
    assert seen[DATA + CODE - VA][:32].all()
    assert seen[DATA][16:32].all()  # the job's header
    assert not seen[DATA][:16].any()  # its status, which the job writes
    assert not seen[DATA + INPUT - VA].any()
    assert not seen[DATA + OUTPUT - VA].any()


def test_shaders_that_nobody_looks_through_may_do_anything() -> None:
    with VirtualGpu("mali_g71-noshaders") as device:
        assert device.access_varies
