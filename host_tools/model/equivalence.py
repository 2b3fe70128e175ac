# SPDX-License-Identifier: BSD-2-Clause
"""Whether two traces do the same: replayed on the virtual GPU, same outputs and same GPU-visible memory.

Memory is compared by GPU address, where a job of the first trace read or wrote it: bytes that no job touches may
be left out of a trace. Pages that share memory with others in the second, and change, hold what the last job left
there that used one of them: of these only outputs tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.model.memory import Memory
from trace_format.actions import MAP_WRITE
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


def difference(before: Trace, after: Trace, inputs: Mapping[str, NDArray[Any]], replays: int = 1) -> str:
    """The first difference in words, "" when there is none.

    Args:
        before, after: the traces; `before` must map every page that its jobs touch at its last job.
        inputs: for the input slots of both.
        replays: how many times in a row each is replayed.
    """
    with interpreter(before, track=True) as one, interpreter(after) as two:
        for _ in range(replays):
            outputs = one.run(inputs), two.run(inputs)
        for name, array in outputs[0].items():
            if name not in outputs[1] or not np.array_equal(array, outputs[1][name]):
                return f"output {name} differs"
        if outputs[0].keys() != outputs[1].keys():
            return f"outputs {sorted(outputs[0])} became {sorted(outputs[1])}"
        touched = {pa // PAGE_BYTES: flags != 0 for pa, flags in one.gpu.access_map().items()}
        pages = _pages(one, before), _pages(two, after)
        sharing = _sharing(after)
        for (space, page), (frame, content) in pages[0].items():
            if frame not in touched or (space, page) in sharing:
                continue
            if (space, page) not in pages[1]:
                return f"GPU page {page:#x} is not mapped any more"
            wrong = (content != pages[1][space, page][1]) & touched[frame]
            if wrong.any():
                return f"memory differs at GPU address {page * PAGE_BYTES + int(np.argmax(wrong)):#x}"
    return ""


def worst_output(before: Trace, after: Trace, inputs: Mapping[str, NDArray[Any]]) -> str:
    """The output that a replay of `after` computes most differently, in words; "" when there is none.

    Args:
        before, after: the traces; outputs that only one of them has are left out.
        inputs: values for the input and parameter slots of both.
    """
    with interpreter(before) as one, interpreter(after) as two:
        expected, found = one.run(inputs), two.run(inputs)
    worst, words = 0.0, ""
    for name in expected.keys() & found.keys():
        should, is_now = (outputs[name].astype(np.float64) for outputs in (expected, found))
        same = (should == is_now) | (np.isnan(should) & np.isnan(is_now))
        apart = np.where(same, 0, np.abs(is_now - should))
        apart[np.isnan(apart)] = np.inf
        element = np.unravel_index(int(np.argmax(apart)), apart.shape)
        if apart[element] > worst:
            worst = float(apart[element])
            words = (
                f"output {name}, element {list(map(int, element))}: "
                f"{is_now[element]:.7g} instead of {should[element]:.7g}"
            )
    return words


def _sharing(trace: Trace) -> set[tuple[int, int]]:
    """Pages that are mapped to the same frame as others, and writable."""
    mappings = Memory.of(trace).mappings
    frames, pages = np.unique(mappings.frames, return_counts=True)
    shared = np.isin(mappings.frames, frames[pages > 1]) & (mappings.flags & MAP_WRITE != 0)
    return set(mappings.where(shared))


def _pages(run: Interpreter, trace: Trace) -> dict[tuple[int, int], tuple[int, NDArray[np.uint8]]]:
    """Frame and content of every page that jobs could see."""
    memory = run.memory.reshape(-1, PAGE_BYTES)
    return {key: (m.frame, memory[m.frame]) for key, m in Memory.of(trace).mappings.items()}
