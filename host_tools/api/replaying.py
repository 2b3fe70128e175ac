# SPDX-License-Identifier: BSD-2-Clause
"""Replaying a signed trace: taken apart once, then verified, loaded and replayed on a runner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from host_tools import runners
from host_tools.audit.verdicts import rules_of_report
from host_tools.model.parts import named
from host_tools.runners.needs import what_helps
from host_tools.runners.replay import ReplayResult, Tensor
from host_tools.support.tensors import TAKEN, boxes_found, without_value
from signing.delivery import Delivery
from signing.trust import Anchor
from signing.trust_verdict import Judge
from signing.verify import Verdict, verify_by
from trace_format import layout
from trace_format.errors import EncryptedError, GramophoneError, TraceError, listed
from trace_format.schema import SlotKind
from trace_format.trace import Trace

NO_SHADERS = "this virtual GPU runs no shaders; outputs hold what was in memory, not results"


@dataclass(frozen=True)
class Subject:
    """A signed trace, and a device's key.

    Attributes:
        file: its name, for messages.
        delivery: its bytes and what they say.
        key: whose traces the device accepts.
        trace: what is replayed: all of it, or a network of a joint one; None where it is damaged.
        is_verified: whether the owner of the key signed it.
        reason: one sentence, why it is not verified, with the file's name.
    """

    file: str
    delivery: Delivery
    key: Anchor
    trace: Trace | None
    is_verified: bool
    reason: str = ""

    def missing(self, given: Collection[str]) -> dict[SlotKind, list[str]]:
        """Slots that need a value and have none: inputs, parameters. The device refuses what is not verified."""
        if self.trace is None or not self.is_verified:
            return {}
        names = {kind: [n for n in without_value(self.trace, kind) if n not in given] for kind in TAKEN}
        return {kind: wanting for kind, wanting in names.items() if wanting}


def opened(delivery: Delivery, key: Anchor, file: str, network: str | None = None) -> Subject:
    """Take a signed trace apart. One that is damaged or not verified is not refused here, but by the device.

    Args:
        delivery: the signed trace.
        key: whose traces the device accepts: an ES256 key, or a trust policy.
        file: its name, for messages.
        network: of a joint trace, the one to replay.

    Raises:
        GramophoneError: it is no signed trace, no key at hand opens it, or it is a joint trace and `network` is
            not one of its networks.
    """
    found = verify_by(delivery, key, Judge(), file=file)
    if found.verdict == Verdict.MALFORMED:
        raise GramophoneError(found.reason)
    trace = None
    try:
        with layout.naming(file):
            trace = delivery.parse()
    except EncryptedError:
        raise  # nobody knows what its slots take
    except TraceError:
        pass  # refusing it is the device's part
    if trace is not None:
        trace = _network(file, trace, network)
    return Subject(file, delivery, key, trace, found.ok, "" if found.ok else found.reason)


def _network(file: str, trace: Trace, network: str | None) -> Trace:
    """What of the trace is replayed: all, or a network of a joint one."""
    if network is None:
        if trace.networks:
            names = listed(row.name for row in trace.networks)
            raise GramophoneError(f"{file} is a joint trace: expected --network with one of {names}")
        return trace
    if not trace.networks:
        raise GramophoneError(f"--network: {file} is no joint trace")
    with layout.naming(file):
        return named(trace, network)


def replayed(runner: str, subject: Subject, inputs: Mapping[str, Tensor], **options: Any) -> ReplayResult:
    """Replay, with as many rows of boxes as were found.

    Where the device has too little memory, or an operator that it may not have, the error says what helps.

    Args:
        runner: of `runners.RUNNERS`.
        subject: from `opened`.
        inputs: slot name -> tensor; those left out keep the recording's value.
        options: further ones of the runner, as `runners.run`.

    Raises:
        RunnerError: as `runners.run`.
    """
    result = runners.run(runner, subject.delivery, subject.key, inputs, **options)
    if subject.trace is None:
        return result
    if result.ok:
        return replace(result, outputs=boxes_found(subject.trace, result.outputs))
    hint = what_helps(subject.delivery, result.report)
    return replace(result, error=f"{result.error}; {hint}") if hint else result


def outcome(result: ReplayResult) -> str:
    """A replay that did not go through, in words: a trace that met a fault of the GPU was not refused."""
    return "accepted, then failed" if result.report.is_fault else "refused"


def refusal(result: ReplayResult) -> str:
    """Why a replay did not go through, with the rules that say so, as a sentence."""
    rules = " or ".join(rule.id for rule in rules_of_report(result.report))
    return f"{outcome(result)} on {result.device}: {result.error}" + (f" [{rules}]" if rules else "")
