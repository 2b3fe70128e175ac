# SPDX-License-Identifier: BSD-2-Clause
"""What makes the virtual GPU run jobs of a trace, in a sandbox: shaders are foreign code, run by a C library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from host_tools.support import contained
from host_tools.support.sandbox import HOUR_S, Sandbox
from host_tools.vgpu import binding
from trace_format.schema import MAX_CARVEOUT_BYTES

T = TypeVar("T")
# Carve-outs, and labels of four bytes for each of theirs, are mapped whole and used in part. Where memory itself
# is short, the kernel ends this process before others.
SPARSE_BYTES = 16 * MAX_CARVEOUT_BYTES
SHEETS = 8  # of a build, which has one for each trace that it keeps
CPU_S = 12 * HOUR_S  # a large network's passes take minutes


def call(work: Callable[[], T], kind: Any, *, reads: tuple[Path, ...] = (), writes: tuple[Path, ...] = ()) -> T:
    """What `work` returns, which uses virtual GPUs; see `contained.call`.

    Args:
        work: it cannot compile anything: there is no compiler in a sandbox.
        kind: type of its result.
        reads, writes: files that it needs; folders that it changes.

    Raises:
        BuildError: the virtual GPU cannot be compiled.
    """
    binding.load()
    most = Sandbox().most_bytes + SPARSE_BYTES
    sandbox = Sandbox(reads, writes, cpu_s=CPU_S, memory_bytes=most, sheets=SHEETS)
    return contained.call("the virtual GPU", work, kind, sandbox)
