# SPDX-License-Identifier: BSD-2-Clause
"""What a GPU sees of an interpreter's memory."""

from __future__ import annotations

from host_tools.model.interpreter import Interpreter
from trace_format.schema import PAGE_BYTES


def visible(run: Interpreter) -> dict[tuple[int, int], bytes]:
    """GPU-visible memory: content of every mapped page by (address space, virtual page)."""
    return {key: run.memory[at : at + PAGE_BYTES].tobytes() for key, at in run.tables.mapped().items()}
