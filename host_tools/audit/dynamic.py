# SPDX-License-Identifier: BSD-2-Clause
"""What lint finds where the data of a trace goes (`lint --dynamic`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from host_tools.accesses.beside_jobs import why_not_beside
from host_tools.accesses.repeated import why_not_repeated
from host_tools.audit.flow import Flow, JobFlow, OutputFlow, Part, follow
from host_tools.audit.follower import Range
from host_tools.audit.lint import finding_in
from host_tools.audit.rules import RULES, Finding
from host_tools.families.page_tables import DivergenceError
from host_tools.model.parts import part
from host_tools.vgpu import confined
from host_tools.vgpu.binding import VgpuError, follows_data
from trace_format.actions import FLAG_BESIDE, FLAG_REPEAT, Op
from trace_format.errors import printable
from trace_format.schema import SlotKind
from trace_format.trace import Trace


def lint_dynamic(trace: Trace) -> tuple[list[Finding], Flow | None]:
    """All findings, and the flow that they are of; None: it could not be followed, which is a finding, or it is a
    joint trace, whose networks are followed one by one.

    Args:
        trace: one whose actions are well-formed (`Trace.parse`).

    Raises:
        BuildError: the virtual GPU cannot be compiled.
    """
    if trace.networks:  # each alone: no mapping of one leads to another
        found = [finding_in(row, one) for row in trace.networks for one in lint_dynamic(part(trace, row))[0]]
        return found, None
    if not follows_data(trace.gpu):
        return [_found("GR700", f"the virtual {trace.gpu} does not follow data")], None
    try:
        flow = confined.call(lambda: follow(trace), Flow)
    except (DivergenceError, VgpuError) as error:
        return [_found("GR708", str(error))], None
    return [*_jobs(flow), *_outputs(trace, flow), *_draws(flow), *_beside(trace), *_repeated(trace)], flow


def _jobs(flow: Flow) -> Iterator[Finding]:
    for job in flow.jobs:
        if job.reads_earlier:
            yield _found(
                "GR702", f"job {job.number} reads what the inputs of an earlier replay have left", job.action
            )
    if flow.left:
        what = f"of the inputs of a replay, {_bytes(flow.left)} are still there after the next one"
        yield _found("GR702", f"{what}, from offset {flow.left[0].first:#x} of the carve-out on")
    if flow.state:
        yield _found("GR709", f"{_bytes(flow.state)} keep what replays make of their inputs")
    for job in flow.jobs:
        if job.commands:
            what = f"code, uniforms or lists depend on {_names(job.commands)}"
            yield _found("GR401", f"job {job.number}: its {what}", job.action)
        if job.addresses or job.control:
            yield _found("GR705", _decides(job), job.action)
        if job.one_sided:
            count = len(job.one_sided)
            branches = "a branch that data decides" if count == 1 else f"{count} branches that data decides"
            where = f"GPU address {job.one_sided[0]:#x}"
            yield _found("GR710", f"job {job.number}: of {branches} one side has not run, {where}", job.action)


def _beside(trace: Trace) -> Iterator[Finding]:
    """Operators that work beside a job, and share something with it."""
    if not (trace.actions["op"][trace.actions["flags"] & FLAG_BESIDE != 0] == Op.OPERATE).any():
        return
    for index, why in confined.call(lambda: why_not_beside(trace), dict[int, str]).items():
        if why:
            yield _found("GR711", f"an operator works beside a job: {why}", index)


def _repeated(trace: Trace) -> Iterator[Finding]:
    """Jobs whose steps cannot be done again, although the trace says so."""
    rows = trace.actions
    marked = np.flatnonzero((rows["op"] == Op.JOB) & (rows["flags"] & FLAG_REPEAT != 0)).tolist()
    if not marked:
        return
    found = confined.call(lambda: why_not_repeated(trace), dict[int, str])
    for index in marked:
        why = found.get(index, "it is not a replay's")
        if why:
            text = f"job {int(rows[index]['value'])}: its step cannot be done again: {why}"
            yield _found("GR605", text, index)


def _decides(job: JobFlow) -> str:
    what = [
        f"{_names(slots)} decides {decided}"
        for slots, decided in ((job.addresses, "addresses"), (job.control, "branches"))
        if slots
    ]
    faults = "; with some values the job faults" if job.faulted else ""
    return f"job {job.number}: {', '.join(what)}{faults}"


def _draws(flow: Flow) -> Iterator[Finding]:
    """Replays that have not come to their end, where that inputs decide addresses does not say so."""
    for draw in flow.draws:
        faulted = [job for job in flow.jobs if job.faulted and job.action == draw.action]
        if draw.stopped and not any(job.addresses or job.control for job in faulted):
            text = f"with inputs of the kind {draw.values!r}: {draw.stopped}"
            yield _found("GR708" if faulted else "GR710", text, draw.action)


def _outputs(trace: Trace, flow: Flow) -> Iterator[Finding]:
    inputs = {slot.name for slot in trace.slots if slot.kind == SlotKind.INPUT}
    reached = {name for output in flow.outputs for part in output.parts for name in part.slots}
    for output in flow.outputs:
        yield from _output(output, inputs)
    for name in sorted(inputs - reached) if flow.outputs else ():
        yield _found("GR704", f"no output depends on the input {printable(name)}")


def _output(output: OutputFlow, inputs: set[str]) -> Iterator[Finding]:
    name = f"the output {printable(output.name)}"
    parts = output.parts
    if output.earlier:
        yield _found("GR701", f"{_bytes(output.earlier)} of {name} depend on inputs of an earlier replay")
    if output.intermediate:
        yield _found("GR703", f"{_bytes(output.intermediate)} of {name} are used by later jobs")
    if output.not_computed:
        yield _found("GR703", f"{_bytes(output.not_computed)} of {name} are written by no job")
    if inputs and (found := [part for part in parts if not inputs.intersection(part.slots)]):
        yield _found("GR704", f"{_bytes(found)} of {name} depend on no input")
    if found := [part for part in parts if part.nobody]:
        yield _found("GR706", f"{_bytes(found)} of {name} depend on memory that nobody has written")
    if found := [part for part in parts if part.registers]:
        yield _found("GR707", f"{_bytes(found)} of {name} depend on registers that their job has not written")


def _bytes(parts: Iterable[Range | Part]) -> str:
    total = sum(part.bytes for part in parts)
    return f"{total} byte" if total == 1 else f"{total} bytes"


def _names(slots: Iterable[str]) -> str:
    return ", ".join(map(printable, slots))


def _found(rule: str, text: str, action: int | None = None) -> Finding:
    return Finding(RULES[rule], text, action)
