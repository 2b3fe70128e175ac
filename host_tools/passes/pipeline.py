"""From a raw recording to a trace worth signing: passes, and the pipeline that runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.passes import PASSES
from host_tools.passes.parameters import bind
from trace_format.actions import Op
from trace_format.errors import GramophoneError, TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


@dataclass(frozen=True)
class Step:
    """What one pass did: sizes after it.

    Attributes:
        memory_bytes: pages of the carve-out that are mapped or hold the image. The carve-out's own size says
            little before memory is put together: it is that of the recorded machine's memory.
    """

    name: str
    actions: int
    image_bytes: int
    memory_bytes: int


def build(
    raw: Trace,
    *,
    skip: Sequence[str] = (),
    parameters: Mapping[str, NDArray[Any]] | None = None,
    source: bytes | None = None,
    progress: Callable[[Step], None] = lambda step: None,
) -> Trace:
    """Run all passes but those in `skip`.

    Args:
        raw: the recording.
        skip: names of passes to leave out.
        parameters: values for parameter slots, by name.
        source: the recording's file, whose SHA-256 goes into the manifest.
        progress: called after every pass.

    Raises:
        GramophoneError: a name in `skip` is no pass, a parameter does not fit its slot, or the recording holds no
            GPU memory.
    """
    unknown = sorted(set(skip) - PASSES.keys())
    if unknown:
        raise GramophoneError(f"no pass called {', '.join(unknown)}; there are: {', '.join(PASSES)}")
    if raw.jobs and not (raw.actions["op"] == Op.MAP_GPU_MEM).any():
        raise TraceError("it holds registers only, no GPU memory: it can be dumped and compared, not built")
    trace = bind(raw, parameters or {})
    applied = []
    for item in PASSES.values():
        if item.name not in skip:
            trace = item.apply(trace)
            applied.append(item.name)
            progress(Step(item.name, len(trace.actions), len(trace.image), memory_bytes(trace)))
    trace = trace.with_(raw=False, notes={**trace.notes, "passes": applied})
    if source is not None:
        trace = trace.with_(meta={**trace.meta, "source_hash": hashlib.sha256(source).digest()})
    return trace


def memory_bytes(trace: Trace) -> int:
    """Pages of the carve-out that are mapped at some time or hold the image, in bytes."""
    maps = trace.actions[trace.actions["op"] == Op.MAP_GPU_MEM]
    starts = np.concatenate([[0], maps["b"].astype(np.int64)])
    ends = starts + np.concatenate([[-(-len(trace.image) // PAGE_BYTES)], maps["value"]])
    order = np.argsort(starts)
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    fresh = ends - np.maximum(starts, np.concatenate([[0], ends[:-1]]))
    return int(np.maximum(fresh, 0).sum()) * PAGE_BYTES
