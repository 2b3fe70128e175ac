# SPDX-License-Identifier: BSD-2-Clause
"""What a signature vouches for, in a few lines: shown before it is trusted, and when it is given."""

from __future__ import annotations

from host_tools.model.description import describe_slot
from host_tools.model.facts import SlotFacts
from host_tools.support.results import Count, Result
from trace_format import policy
from trace_format.errors import listed, printable
from trace_format.operators import OPERATORS, used
from trace_format.schema import SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

SECOND_US = 1_000_000
SHOWN = 3  # parameters that are named


class Summary(Result):
    """What a signature vouches for.

    Attributes:
        operators: What is computed on the CPU: names for operators in a device file.
        unsigned_parameters: Weights that callers give or may replace.
    """

    name: str
    gpu: str
    raw: bool
    security_version: Count
    jobs: Count
    actions: Count
    registers_written: list[str]
    operators: list[str]
    carveout_bytes: Count
    va_bytes: Count
    slots: list[SlotFacts]
    unsigned_parameters: Count
    time_budget_us: Count
    retry_limit: Count


def summary(trace: Trace) -> Summary:
    """The facts, for `--json`."""
    meta = Trace.META_DEFAULTS | trace.meta
    return Summary(
        name=meta["name"],
        gpu=trace.gpu,
        raw=trace.raw,
        security_version=meta["security_version"],
        jobs=trace.jobs,
        actions=len(trace.actions),
        registers_written=policy.written(trace),
        operators=[OPERATORS[operator].name for operator in used(trace.actions)],
        carveout_bytes=trace.carveout_bytes,
        va_bytes=trace.va_bytes,
        slots=[_slot(slot) for slot in trace.slots],
        unsigned_parameters=len(_parameters(trace)),
        time_budget_us=meta["time_budget_us"],
        retry_limit=meta["retry_limit"],
    )


def unsigned(trace: Trace) -> str:
    """The weights that callers give, or may give, in words; "": all are in the trace, which is signed."""
    found = _parameters(trace)
    if not found:
        return ""
    given = sum(not slot.bound for slot in found)
    names = listed([printable(slot.name) for slot in found[:SHOWN]])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    what = "a parameter" if len(found) == 1 else f"{len(found)} parameters"
    how = {0: "callers may replace", len(found): "callers give"}.get(given, "callers give or may replace")
    return f"the values of {what}, which {how}: {names}{more}"


def lines(trace: Trace) -> list[str]:
    """The same for people."""
    facts = summary(trace)
    operators = facts.operators
    internal = sum(slot.kind is SlotKind.INTERNAL for slot in trace.slots)
    rows = [
        ("name", printable(facts.name)),
        ("gpu", f"{facts.gpu}{', a raw recording' if facts.raw else ''}"),
        ("security version", str(facts.security_version)),
        ("jobs", f"{facts.jobs}, in {facts.actions} actions"),
        ("writes", listed(facts.registers_written)),
        *(
            [("operators", f"{listed(operators)}, with {internal} slots that are no caller's")]
            if operators
            else []
        ),
        ("memory", f"{facts.carveout_bytes} bytes, GPU addresses below {facts.va_bytes:#x}"),
        *([("not signed", unsigned(trace))] if facts.unsigned_parameters else []),
        ("time budget", f"{facts.time_budget_us / SECOND_US:g} s, {facts.retry_limit} retries"),
        *(("slot", describe_slot(slot)) for slot in trace.slots if slot.kind is not SlotKind.INTERNAL),
    ]
    return [f"{name:16} {text}" for name, text in rows]


def _parameters(trace: Trace) -> list[Slot]:
    return [slot for slot in trace.slots if slot.kind is SlotKind.PARAMETER]


def _slot(slot: Slot) -> SlotFacts:
    kind, dtype = slot.kind.name.lower(), slot.dtype.name.lower()
    return SlotFacts(name=slot.name, kind=kind, dtype=dtype, shape=slot.tensor_shape, bound=slot.bound)
