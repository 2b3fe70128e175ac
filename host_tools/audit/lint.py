# SPDX-License-Identifier: BSD-2-Clause
"""The static verifier: all findings of a trace, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from host_tools.audit.checks import Checks
from host_tools.audit.limits import unusual
from host_tools.audit.rules import DEVICE_RETRIES, RULES, Finding
from host_tools.audit.state import State
from host_tools.families.family import family_of
from host_tools.model.checkpoints import says_resume, why_not_resumed
from host_tools.model.parts import part
from trace_format import policy
from trace_format.actions import FLAG_REPEAT, Columns, Op, Type, actions_of
from trace_format.errors import printable
from trace_format.network import Network
from trace_format.operands import REGISTERS
from trace_format.trace import Trace
from trace_format.validate import replay_total

# Rules of which each finding ends every replay on every device. A slot that lies wrongly (GR401) may only leak,
# and a job that is not waited for (GR601) may have ended.
STOPPED = {"GR202", "GR301", "GR303", "GR304", "GR305", "GR307", "GR405", "GR502"}


def lint(trace: Trace) -> list[Finding]:
    """All findings, those about one action in the order of actions, then those about the whole.

    Args:
        trace: one whose actions are well-formed (`Trace.parse`); of a joint one, each network is judged.
    """
    if trace.networks:
        return [
            finding_in(network, finding) for network in trace.networks for finding in lint(part(trace, network))
        ]
    found = [
        *_registers(trace),
        *_actions(trace),
        *_family(trace),
        *_checkpoints(trace),
        *_budget(trace),
        *unusual(trace),
    ]
    if trace.raw:
        found.append(Finding(RULES["GR002"], "it is a raw recording: `gramophone build` makes a trace of it"))
    last = len(trace.actions)
    return sorted(found, key=lambda item: last if item.action is None else item.action)


def finding_in(network: Network, finding: Finding) -> Finding:
    """What is found in one network of a joint trace, as of the whole."""
    action = None if finding.action is None else finding.action + network.first_action
    return Finding(finding.rule, f"{printable(network.name)}: {finding.text}", action)


def stopped(trace: Trace) -> list[Finding]:
    """What every device refuses, or stops at, whatever its inputs are."""
    return [finding for finding in lint(trace) if finding.rule.id in STOPPED]


def _registers(trace: Trace) -> Iterator[Finding]:
    """What the profile does not allow, by the rules that devices have of it."""
    for index in np.flatnonzero(policy.code_outside_the_image(trace)).tolist():
        yield Finding(RULES["GR202"], "pages outside the image are mapped executable", index)
    for index in np.flatnonzero(policy.out_of_place(trace)).tolist():
        yield Finding(RULES["GR606"], f"an operator works beside a job: expected that {policy.IN_PLACE}", index)
    registers = Columns(trace.actions).of(*REGISTERS)
    for wrong, expected, field in policy.broken(trace):
        for index in np.flatnonzero(wrong).tolist():
            name = trace.profile.describe(4 * int(registers[index]))
            found = f", found {int(trace.actions[index][field]):#010x}" if field else ""
            yield Finding(RULES["GR101"], f"{name}: expected {expected}{found}", index)


def _actions(trace: Trace) -> Iterator[Finding]:
    state = State(trace)
    checks = Checks(state)
    for index, row in enumerate(actions_of(trace.actions)):
        yield from checks.before(index, row)
        state.apply(row)
    yield from checks.after()


def _checkpoints(trace: Trace) -> Iterator[Finding]:
    """Claims of a trace on where its replays go on, as far as its actions say whether they are true."""
    rows = trace.actions
    if says_resume(trace):
        if why := why_not_resumed(trace):
            yield Finding(RULES["GR605"], f"replays do not go on after a reset: {why}", _replay_start(trace))
    elif len(jobs := np.flatnonzero((rows["op"] == Op.JOB) & (rows["flags"] & FLAG_REPEAT != 0))):
        text = "a job can be repeated, it says, but replays do not go on after a reset"
        yield Finding(RULES["GR605"], text, int(jobs[0]))


def _replay_start(trace: Trace) -> int:
    return int(np.flatnonzero(trace.actions["op"] == Op.REPLAY_START)[0])


def _family(trace: Trace) -> Iterator[Finding]:
    """What its family finds."""
    for rule, text in family_of(trace.profile).check(trace):
        yield Finding(RULES[rule], text)


def _budget(trace: Trace) -> Iterator[Finding]:
    meta = Trace.META_DEFAULTS | trace.meta
    budget, retries = int(meta["time_budget_us"]), int(meta["retry_limit"])
    for rule, what, operand in (("GR501", "timeouts", Type.TIMEOUT), ("GR502", "pauses", Type.MICROSECONDS)):
        total = replay_total(trace.actions, operand)
        if total > budget or not budget:
            text = f"the {what} of a replay add up to {total} us, the time budget is {budget} us"
            yield Finding(RULES[rule], text)
    if retries > DEVICE_RETRIES:
        yield Finding(RULES["GR503"], f"{retries} retries")
