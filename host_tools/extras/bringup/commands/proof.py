# SPDX-License-Identifier: BSD-2-Clause
"""What `prove run` and `prove read` say of a board's jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from host_tools.audit.jobs import jobs_of
from host_tools.commands.framework import Outcome
from host_tools.extras.bringup import compare, probes
from host_tools.extras.bringup.compare import LAST_BITS, Differing, Page
from host_tools.extras.bringup.probes import Pages
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result
from host_tools.vgpu import confined
from trace_format.errors import printable
from trace_format.trace import Trace


class Proof(Result):
    """What a board's jobs wrote, compared with the virtual GPU.

    Attributes:
        jobs: That were looked at.
        first: The first job that differs; null: all are the same.
        first_beyond_last_bits: The first job that differs by more than last bits.
        pages: All of them, in the order of jobs and addresses.
        error: Why the device refused the probe.
    """

    jobs: Count
    first: Differing | None
    first_beyond_last_bits: Differing | None
    pages: list[Page]
    error: str | UnsetType = UNSET


def proof(trace: Trace, values: Mapping[str, NDArray[Any]], outputs: Mapping[str, Any]) -> Outcome[Proof]:
    """Compare a board's outputs of a probe.

    Args:
        trace: the probe.
        values: slot -> input, as the board had them.
        outputs: slot -> what came back.
    """
    with phase("replaying on the virtual GPU"):
        pages = confined.call(lambda: probes.expected(trace, values), list[Pages])
    names = [job.name for job in jobs_of(trace).jobs]
    found = compare.compared(pages, outputs, names)
    first, beyond = compare.first_job(found), compare.first_job(found, LAST_BITS)
    data = Proof(len({page.job for page in found}), first, beyond, found)
    if first is None:
        return Outcome(data, f"all {data.jobs} jobs wrote what the virtual GPU writes, in {len(found)} pages")
    lines = [f"first difference: {_words(first)}"]
    if beyond is None:
        lines.append("nothing differs by more than last bits")
    elif beyond.job != first.job:
        lines.append(f"first beyond last bits: {_words(beyond)}")
    later = Counter(page.kind for page in found if page.kind is not None and page.job != first.job)
    if later:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(later.items()))
        lines.append(f"pages of later jobs that differ, perhaps because of it: {kinds}")
    return Outcome(data, "\n".join(lines), ok=False)


def _words(job: Differing) -> str:
    word = job.first
    name = f" ({printable(job.layer)})" if job.layer else ""
    return (
        f"job {job.job}{name}, {job.kind}: {job.words} words in {job.pages} pages, the first at "
        f"{word.address:#x}: expected {word.expected:#010x}, found {word.found:#010x}, before the job "
        f"{word.before:#010x}"
    )
