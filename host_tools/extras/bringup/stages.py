# SPDX-License-Identifier: BSD-2-Clause
"""The stages of a bring-up that are replays: traces made of one network's, each with what it is for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from host_tools.accesses.job_starts import JobStarts
from host_tools.extras.bringup.probes import Place, ends, probe
from host_tools.runners import mailbox
from host_tools.runners.buffers import bind
from signing.sign import Signer, sign_trace
from trace_format.actions import Op, action, actions_of, array_of
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

STEP = 1 << 20  # from a stage's request to the next one's in the mailbox
MARK_BYTES = 4  # at the end of all requests: which kit they are of
TIMED, TIMED_REPLAYS = "timing", 20
Values = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Stage:
    """A stage that is a request.

    Attributes:
        name: as the console says it.
        replays: how often.
    """

    name: str
    trace: Trace
    replays: int = 1


def stages(trace: Trace, pages: Mapping[int, Sequence[Place]], replays: int) -> list[Stage]:
    """All of them, in the order of the mailbox; those after "thousand" are timed.

    Args:
        trace: of a network.
        pages: that each job writes (`probes.written_pages`).
        replays: of "thousand".

    Raises:
        GramophoneError: the first job writes nothing, or there are too many pages for one probe.
    """
    if not pages.get(0):
        raise GramophoneError("the first job writes no memory: a bring-up needs a network whose first job does")
    first = cut(trace, 1)
    once = {"retry_limit": 0}
    found = [
        Stage("irq", _with(first, once)),
        Stage("fault", _with(_without_pages(first, pages[0]), once)),
        Stage("copy", _with(probe(first, {0: pages[0]}), once)),
        Stage("lenet", _with(probe(trace, pages), once)),
        Stage("thousand", trace, replays),
    ]
    jobs = len(pages)
    counts = sorted({max(1, jobs * part // 4) for part in (1, 2, 3)} | {1})
    timed = [cut(trace, count) for count in counts if count < jobs]
    return [*found, *(Stage(TIMED, one, min(replays, TIMED_REPLAYS)) for one in [*timed, trace])]


def _with(trace: Trace, meta: Mapping[str, Any]) -> Trace:
    return trace.with_(meta={**trace.meta, **meta})


def cut(trace: Trace, jobs: int) -> Trace:
    """The trace to the end of its first jobs."""
    rows = list(actions_of(trace.actions))
    end = next(at for at, done in ends(rows, JobStarts(trace.profile)) if done[-1] >= jobs - 1)
    return trace.with_(actions=array_of(rows[:end]), raw=False)


def _without_pages(trace: Trace, places: Sequence[Place]) -> Trace:
    """The trace with pages unmapped before the GPU has its table: a job that writes there faults."""
    rows = list(actions_of(trace.actions))
    last = max(at for at, row in enumerate(rows) if row.op == Op.MAP_GPU_MEM)
    gone = [action(Op.UNMAP_GPU_MEM, address_space=space, va_page=page, pages=1) for space, page in places]
    return trace.with_(actions=array_of([*rows[: last + 1], *gone, *rows[last + 1 :]]), raw=False)


def requests(found: Sequence[Stage], values: Values, signer: Signer) -> bytes:
    """What lies in the mailbox: a request every STEP bytes, and last the kit's mark, which keys do not change.

    Raises:
        GramophoneError: one is larger.
    """
    image = bytearray(STEP * (len(found) + 1))
    mark = hashlib.sha256()
    for number, stage in enumerate(found):
        built = stage.trace.build()
        mark.update(f"{stage.name} {stage.replays} {len(built)} ".encode() + built)
        signed = sign_trace(built, signer)
        buffers = bind(stage.trace, values)
        size = mailbox.layout(signed, buffers).size
        if size > STEP:
            raise GramophoneError(
                f"stage {stage.name}: expected a trace and its values in at most {STEP} bytes, found {size}: a "
                "bring-up takes a small network, as the digits' LeNet"
            )
        with memoryview(image)[number * STEP : (number + 1) * STEP] as part:
            mailbox.request(part, signed, buffers, stage.replays)
    for name, value in sorted(values.items()):
        mark.update(name.encode() + value.tobytes())
    image[-MARK_BYTES:] = mark.digest()[:MARK_BYTES]
    return bytes(image)
