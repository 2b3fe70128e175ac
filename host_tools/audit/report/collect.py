# SPDX-License-Identifier: BSD-2-Clause
"""Gathers what a behaviour report says, from the file itself and from a run on the virtual GPU."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses import data_flow
from host_tools.accesses.job_times import Estimated
from host_tools.accesses.observe import random_inputs
from host_tools.audit.allowed import Allowance
from host_tools.audit.jobs import Code, Jobs, jobs_of
from host_tools.audit.judgement import judge
from host_tools.audit.outcome import Judged, judged
from host_tools.audit.report import facts
from host_tools.audit.report.regions import regions, writable_bytes
from host_tools.audit.rules import Severity
from host_tools.runners.needs import memory_for
from host_tools.support.version import VERSION
from host_tools.vgpu.binding import executes_shaders
from signing import encryption
from signing.delivery import Delivery
from signing.trust import Anchor
from trace_format import layout, policy
from trace_format.actions import Columns, Op, Type
from trace_format.errors import GramophoneError, TraceError
from trace_format.schema import SIGNED_MAGIC, SlotKind
from trace_format.trace import Trace

FULL, NONE = "full", "none"  # whether the virtual GPU executes shaders
MAX_VALUES = 8  # of a register, that are listed
ADDRESS = re.compile(r"GPU address (0x[0-9a-f]+)")  # in the texts of findings
MAX_FILES = 6  # that a command line names
SEED = 1  # of random values for inputs without a recorded one


@dataclass(frozen=True)
class Asked:
    """What a report is made of.

    Attributes:
        file: name of the trace's file, as the user gave it.
        data: its content.
        keys: that are trusted, or a trust policy; None: none was given.
        command: the command line that makes this report.
        allowances: findings that are accepted.
        run: whether to run it on the virtual GPU.
        values: of slots, for that run.
        files: where they are from.
    """

    file: str
    data: bytes = field(repr=False)
    keys: Sequence[Anchor] | None = None
    command: str = ""
    allowances: Sequence[Allowance] = ()
    run: bool = True
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def collect(asked: Asked, trace: Trace) -> facts.Report:
    """All facts.

    Args:
        asked: see there.
        trace: the trace in the file.

    Raises:
        GramophoneError: keys were given, and it is no signed trace.
    """
    jobs = jobs_of(trace)
    run, seen = _run(asked, trace)
    shaders = _shaders(jobs)
    number_of = {shader.sha256: number for number, shader in enumerate(shaders)}
    verdict = judged(trace, asked.allowances, dynamic=asked.run)
    return facts.Report(
        tool=f"gramophone {VERSION}",
        file=facts.file_of(asked.file, asked.data),
        signature=_signature(asked, trace),
        about=_about(trace),
        actions=len(trace.actions),
        needs=_needs(asked, trace, jobs),
        slots=[_slot(slot) for slot in trace.slots],
        run=run,
        may_basis=facts.MAPPINGS if jobs.followed is None else facts.DESCRIPTORS,
        not_followed=jobs.not_followed,
        jobs=_jobs(jobs, number_of, seen, run.compute == FULL),
        regions=regions(trace, jobs, seen),
        shaders=shaders,
        flow=_flow(trace, seen if run.compute == FULL else None),
        registers=_registers(trace),
        findings=_findings(verdict, jobs, number_of),
        counts={severity.value: verdict.counts[severity] for severity in Severity},
        passes=verdict.passes(strict=True),
        reproduce=_reproduce(asked, trace),
        pieces=[facts.piece_of(piece) for piece in trace.streamed],
    )


def _signature(asked: Asked, trace: Trace) -> facts.Signature:
    refused = None
    try:
        policy.check(trace)
    except TraceError as error:
        refused = str(error)
    if asked.keys is not None:
        found = judge(Delivery(asked.data), asked.keys, asked.file)
        signature = found.signature
        return facts.Signature(
            facts.VERIFIED if signature.ok else facts.REFUSED,
            signature.reason,
            signature.algorithm.title if signature.algorithm else None,
            signature.kid.hex() if signature.kid else None,
            refused,
        )
    if not asked.data.startswith(SIGNED_MAGIC):
        return facts.Signature(facts.UNSIGNED, "it carries no signature", None, None, refused)
    signed = Delivery(asked.data).signed
    reason = f"it claims to be signed by key {signed.signed_by}; no key was given, so that was not checked"
    return facts.Signature(facts.NO_KEY, reason, signed.algorithm.title, signed.signed_by, refused)


def _about(trace: Trace) -> facts.About:
    meta = Trace.META_DEFAULTS | trace.meta
    return facts.About(
        name=meta["name"],
        trace_id=trace.trace_id.hex(),
        gpu=trace.gpu,
        gpu_title=trace.profile.title,
        forbids_execution=trace.profile.forbids_execution,
        raw=trace.raw,
        security_version=meta["security_version"],
        source_hash=meta["source_hash"].hex(),
        recorder=meta["recorder"],
        kernel=meta["kernel"],
        driver=meta["driver"],
        framework=meta["framework"],
    )


def _needs(asked: Asked, trace: Trace, jobs: Jobs) -> facts.Needs:
    meta = Trace.META_DEFAULTS | trace.meta
    signed = asked.data.startswith(SIGNED_MAGIC)
    lines = Columns(trace.actions).of(Type.LINE)
    return facts.Needs(
        secure_bytes=memory_for(trace, Delivery(asked.data).header if signed else layout.read_header(asked.data)),
        carveout_bytes=trace.carveout_bytes,
        image_bytes=len(trace.image),
        va_bytes=trace.va_bytes,
        writable_bytes=writable_bytes(jobs),
        interrupts=[trace.profile.interrupts[int(line)] for line in np.unique(lines[lines >= 0])],
        time_budget_us=meta["time_budget_us"],
        retry_limit=meta["retry_limit"],
        values=[slot.name for slot in trace.slots if slot.kind.is_given and not slot.bound],
    )


def _slot(slot: Any) -> facts.Slot:
    return facts.Slot(
        slot.name,
        slot.kind.name.lower(),
        slot.dtype.name.lower(),
        list(slot.tensor_shape),
        slot.address,
        slot.address_space,
        slot.dense_bytes,
        slot.bound,
    )


def chosen_values(
    trace: Trace, given: Mapping[str, NDArray[Any]], files: Mapping[str, str]
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Values for a run, and where those of each slot are from: given ones, recorded ones where there are, and
    random ones for other inputs.

    Args:
        trace: that is to be run.
        given: values by slot name.
        files: where these are from.
    """
    random = random_inputs(trace, SEED)
    values, origins = dict(given), dict(files)
    for slot in trace.slots:
        if not slot.kind.is_given or slot.name in values:
            continue
        origins[slot.name] = "recorded" if slot.bound else "zeros"
        if slot.kind == SlotKind.INPUT and not slot.bound:
            values[slot.name], origins[slot.name] = random[slot.name], "random"
    return values, origins


def _run(asked: Asked, trace: Trace) -> tuple[facts.Run, data_flow.Run | None]:
    """A run with the values of `chosen_values`."""
    try:
        compute = FULL if executes_shaders(trace.gpu) else NONE
    except GramophoneError:  # no compiler; the run says so
        compute = NONE
    if not asked.run:
        return facts.Run(facts.NOT_ASKED, "it was not run", compute, {}), None
    values, origins = chosen_values(trace, asked.values, asked.files)
    try:
        seen = data_flow.follow(trace, values)
    except GramophoneError as error:
        return facts.Run(facts.FAILED, str(error).splitlines()[0], compute, origins), None
    return facts.Run(facts.RAN, "it ran to its end", compute, origins), seen


def _shaders(jobs: Jobs) -> list[facts.Shader]:
    """Equal code once, in the order of first use."""
    users: dict[str, list[int]] = {}
    first: dict[str, Code] = {}
    for job in jobs.jobs:
        for code in job.codes:
            first.setdefault(code.digest, code)
            users.setdefault(code.digest, []).append(job.number)
    return [
        facts.Shader(digest, code.va, len(code.data), users[digest], code.flaw, list(code.lines))
        for digest, code in first.items()
    ]


def _jobs(jobs: Jobs, number_of: Mapping[str, int], seen: data_flow.Run | None, computes: bool) -> list[facts.Job]:
    runs: Sequence[data_flow.JobRun | None] = seen.jobs if seen else [None] * len(jobs.jobs)
    return [
        facts.Job(
            job.number,
            job.action,
            job.marker,
            job.name,
            job.kind,
            job.work,
            dict(job.registers),
            list(dict.fromkeys(number_of[code.digest] for code in job.codes)),
            run.instructions if run and computes else None,
            sum(run.read.values()) if run else None,
            sum(run.written.values()) if run else None,
        )
        for job, run in zip(jobs.jobs, runs, strict=True)
    ]


def with_times(report: facts.Report, estimate: Estimated, times: Mapping[int, float]) -> facts.Report:
    """The report with how long its jobs take.

    Args:
        estimate: of all jobs of a replay.
        times: in microseconds, by the index of the action that announces a job; a job without one of its own has
            its time in the one before.
    """
    announced = sorted(times)
    used: set[int] = set()
    jobs = []
    for job in report.jobs:
        at = bisect_right(announced, job.action)
        own = announced[at - 1] if at else None
        us = None if own is None else 0.0 if own in used else times[own]
        used |= set() if own is None else {own}
        jobs.append(replace(job, us=us))
    return replace(report, jobs=jobs, estimate=estimate)


def _flow(trace: Trace, seen: data_flow.Run | None) -> facts.Flow:
    """Who wrote what is read. Another source of the same edges, such as taint, belongs here, as another `basis`.

    Args:
        seen: a run that executed shaders; None: there is none, and what the job manager does is no data flow.
    """
    if seen is None:
        return facts.Flow("", [])

    def node(origin: data_flow.Origin) -> facts.Node:
        match origin.kind:
            case data_flow.JOB:
                return facts.Node(facts.JOB, job=origin.number)
            case data_flow.SLOT:
                return facts.Node(facts.SLOT, slot=trace.slots[origin.number].name)
        return facts.Node(origin.kind)

    targets = [(facts.Node(facts.JOB, job=number), job.sources) for number, job in enumerate(seen.jobs)]
    targets += [
        (facts.Node(facts.SLOT, slot=trace.slots[number].name), found) for number, found in seen.outputs.items()
    ]
    edges = [
        facts.Edge(node(origin), target, size)
        for target, found in targets
        for origin, size in sorted(found.items())
    ]
    return facts.Flow("run", edges)


def _registers(trace: Trace) -> list[facts.Register]:
    columns = Columns(trace.actions)
    read, write = columns.of(Type.REGISTER_READ), columns.of(Type.REGISTER_WRITTEN)
    values = np.where(columns.is_op(Op.REG_WRITE), columns.of(Type.BITS), -1)
    found = []
    for index in np.unique(np.concatenate((read[read >= 0], write[write >= 0]))).tolist():
        register = trace.profile.by_offset.get(4 * index)
        distinct = np.unique(values[(write == index) & (values >= 0)]).tolist()
        found.append(
            facts.Register(
                trace.profile.describe(4 * index),
                4 * index,
                int(np.count_nonzero(read == index)),
                int(np.count_nonzero(write == index)),
                distinct[:MAX_VALUES],
                max(0, len(distinct) - MAX_VALUES),
                register.may_set if register and register.may_write else None,
            )
        )
    return found


def _findings(verdict: Judged, jobs: Jobs, number_of: Mapping[str, int]) -> list[facts.Finding]:
    """By severity, the worst first."""
    order = list(Severity)
    found = sorted(enumerate(verdict.findings), key=lambda row: order.index(row[1].rule.severity))
    return [
        facts.Finding(
            item.rule.id,
            item.rule.name,
            item.rule.severity.value,
            item.rule.reason,
            item.rule.device,
            item.action,
            item.text,
            verdict.reasons.get(index),
            *_place(jobs, number_of, item.action, item.text),
        )
        for index, item in found
    ]


def _place(
    jobs: Jobs, number_of: Mapping[str, int], action: int | None, text: str
) -> tuple[int | None, int | None, int | None]:
    """Job, shader and line of a finding: the job that its action starts, the code at the address that it names."""
    job = next((job for job in jobs.jobs if job.action == action), None)
    if job is None:
        return None, None, None
    for address in (int(found, 16) for found in ADDRESS.findall(text)):
        for code in job.codes:
            if code.va <= address < code.va + len(code.data):
                step = len(code.data) // max(1, len(code.lines))
                even = bool(code.lines) and step * len(code.lines) == len(code.data)
                return job.number, number_of[code.digest], (address - code.va) // step if even else None
    return job.number, number_of[job.codes[0].digest] if len(job.codes) == 1 else None, None


def _reproduce(asked: Asked, trace: Trace) -> list[str]:
    """Command lines, for a shell."""
    name = shlex.quote(asked.file)
    judging = f"gramophone lint {name} --strict{' --dynamic' if asked.run else ''}"
    lines = [f"sha256sum -- {name}", judging, f"gramophone dump {name}"]
    if asked.data.startswith(SIGNED_MAGIC):
        lines.insert(1, f"gramophone verify trace {name} --key KEY.pem")
        given = [s for s in trace.slots if s.kind.is_given and not s.bound]
        kinds = ((SlotKind.INPUT, "input"), (SlotKind.PARAMETER, "param"))
        options = "".join(
            f" --{option} {value}"
            for kind, option in kinds
            for value in _values([slot.name for slot in given if slot.kind == kind])
        )
        lines.append(f"gramophone replay {name} --key KEY.pem{options}")
    return [*lines, asked.command]


def _values(names: Sequence[str]) -> list[str]:
    """What gives slots their values: files, or, of many, a folder."""
    if len(names) > MAX_FILES:
        return ["FOLDER"]
    return [shlex.quote(f"{name}={name}.npy") for name in names]


def parse(data: bytes, file: str) -> Trace:
    """The trace in a file, signed or not; nothing is verified here.

    Raises:
        TraceError: it is neither.
    """
    if not data.startswith(SIGNED_MAGIC):
        return encryption.parse(data, file)
    with layout.naming(file):
        return Delivery(data).parse()
