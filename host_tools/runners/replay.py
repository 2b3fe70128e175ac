# SPDX-License-Identifier: BSD-2-Clause
"""The interface of a runner: what a caller requests, what a runner takes and gives back, and the errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from host_tools.families.family import profile_of
from host_tools.model.parts import named
from host_tools.vgpu.binding import executes_shaders
from signing.delivery import Delivery
from signing.trust import Anchor
from signing.trust_verdict import NO_ID
from tee_replayer.generator.status import Report
from trace_format.errors import GramophoneError, listed
from trace_format.trace import Trace

Tensor = npt.NDArray[Any]
Watch = Callable[[int, Mapping[str, bytes]], None]

FULL, NONE = "full", "none"  # ReplayResult.compute
EVERY_RUNNER = frozenset(  # takes these
    ("delivery", "key", "inputs", "gpu", "repeat", "min_security_version", "bearssl", "aws_lc", "device_id")
)


class InputError(GramophoneError):
    """A tensor that does not fit the trace's slots."""


class RunnerError(GramophoneError):
    """The emulator itself failed: it is missing, did not end, or gave no answer."""


@dataclass(frozen=True)
class ReplayRequest:
    """A replay to be run. The attributes after `device_id` are options that only some runners have.

    Attributes:
        delivery: the signed trace; its bytes are what the device is given.
        key: whose traces are accepted: an ES256 key, or a trust policy.
        inputs: slot name -> tensor; those left out keep the recording's value.
        gpu: the virtual GPU; None: that of the trace.
        repeat: replays in a row; the outputs are those of the last one, but for `each`.
        min_security_version: older traces are refused.
        bearssl, aws_lc: the crypto libraries' sources, for what is compiled for this replay; None: Debian's.
        device_id: 16 bytes, for trust policies that name devices; zeros: it has none.
        firmware: folder that `generate` wrote, compiled where it has a make file; None: one is made for `key`.
        plugin_args: further arguments of the QEMU plugin (host_tools/vgpu/qemu).
        timeout_s: of real time, for the whole run; None: the runner's own.
        latency_ns: how long the virtual GPU takes for what takes time.
        store: folder with what an emulated board keeps: its secret, and of a replay log what outlives a boot.
        has_log: with `store`, whether the firmware has a replay log, whose entries are wanted.
        flash: file of the flash in which an emulated board with a rollback store keeps versions, made where there
            is none.
        clock: what the clock of an emulated board says, in seconds since 1970 (UTC); None: QEMU's says what time
            it is, and Unicorn has none.
        nonce: of a verifier, for an attestation.
        series: slot name -> tensors of all replays, the first dimension being the replay's.
        each: outputs that are wanted of all replays, in the same form.
        watch: called while a machine runs, from another thread, with the number of a replay that is over (from 0)
            and the bytes of what `each` names; not of the last replay.
        network: of a joint trace, the one to replay; None: it is no joint trace.
        hang_job, fault_job: test aids: the compute job (from 1) that never completes, or faults.
    """

    delivery: Delivery
    key: Anchor
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    gpu: str | None = None
    repeat: int = 1
    min_security_version: int = 0
    bearssl: Path | None = None
    aws_lc: Path | None = None
    device_id: bytes = NO_ID
    firmware: Path | None = None
    plugin_args: Mapping[str, str] | None = None
    timeout_s: float | None = None
    latency_ns: int = 0
    store: Path | None = None
    has_log: bool = True
    flash: Path | None = None
    clock: int | None = None
    nonce: bytes | None = None
    series: Mapping[str, Tensor] = field(default_factory=dict)
    each: frozenset[str] = frozenset()
    watch: Watch | None = None
    network: str | None = None
    hang_job: int = 0
    fault_job: int = 0

    @property
    def trace(self) -> Trace | None:
        """What is replayed: the trace, or its network; None when it is damaged (`Delivery.trace`)."""
        trace = self.delivery.trace
        return named(trace, self.network) if trace is not None and self.network is not None else trace

    def check_options(self, runner: str, options: frozenset[str]) -> None:
        """Raise RunnerError for what is set and not among the runner's options, or contradicts another option."""
        optional = [item for item in fields(self) if item.name not in EVERY_RUNNER]
        given = [item.name for item in optional if getattr(self, item.name) not in (item.default, {})]
        if unknown := [name for name in given if name not in options]:
            raise RunnerError(
                f"the runner {runner} has no option {listed(unknown)}; it has: {listed(sorted(options))}"
            )
        if self.firmware is not None and (self.bearssl or self.aws_lc):
            raise RunnerError(
                f"{self.firmware}: the firmware has its own crypto libraries; no others can be given"
            )
        if self.firmware is not None and self.device_id != NO_ID:
            raise RunnerError(f"{self.firmware}: the firmware has its own device id; no other can be given")
        if self.firmware is not None and self.min_security_version:
            raise RunnerError(
                f"{self.firmware}: the minimum security version is that which the firmware was generated with; "
                "no other can be given"
            )


@dataclass(frozen=True)
class Instructions:
    """Instructions that the device's CPU executed: until the signature was good, for the rest of loading, for the
    last replay. They include waiting for the GPU."""

    verify: int
    load: int
    replay: int


@dataclass(frozen=True)
class Evidence:
    """What a device says of a request: entries of its log, one after the other, and an attestation."""

    entries: bytes = b""
    attestation: bytes = b""


@dataclass(frozen=True)
class ReplayResult:
    """What came of a replay.

    Attributes:
        ok: whether the trace was accepted and every replay went through.
        device: what it ran on, in words.
        report: what the replayer reported; counts are of the last replay.
        outputs: slot name -> tensor, after the last replay; empty unless ok.
        instructions: None where the runner cannot count.
        trace_bytes: size of the signed trace.
        compute: what the virtual GPU computes of the jobs: FULL or NONE. With NONE no shader runs: the jobs go
            through, and outputs are what was in memory.
        error: one sentence; empty when ok.
        seconds: real time of each replay; empty where the runner sees only the whole run.
        evidence: of firmware with a replay log.
    """

    ok: bool
    device: str
    report: Report
    outputs: dict[str, Tensor]
    instructions: Instructions | None
    trace_bytes: int
    compute: str
    error: str = ""
    seconds: tuple[float, ...] = ()
    evidence: Evidence = Evidence()

    @property
    def jobs(self) -> int:
        """GPU jobs of the last replay; those of the prologue only where it ran then."""
        return self.report.jobs

    @property
    def actions(self) -> int:
        """Actions executed by the last replay."""
        return self.report.actions

    @property
    def retries(self) -> int:
        """Resets after a divergence in the last replay."""
        return self.report.retries

    @property
    def secure_bytes(self) -> int:
        """Carve-out memory in use."""
        return self.report.secure_bytes


NO_EVIDENCE = Evidence()


class Runner(Protocol):
    """What a replay can run on. Each runner is a module with these two names.

    Attributes:
        OPTIONS: attributes of ReplayRequest that it takes besides those that every runner takes (EVERY_RUNNER).
    """

    OPTIONS: frozenset[str]

    def replay(self, request: ReplayRequest) -> ReplayResult:
        """Verify, load and replay a signed trace.

        Raises:
            InputError: a tensor does not fit.
            RunnerError: the emulator failed.
        """


def result(
    report: Report,
    device: str,
    outputs: dict[str, Tensor],
    instructions: Instructions | None,
    delivery: Delivery,
    gpu: str,
    evidence: Evidence = NO_EVIDENCE,
) -> ReplayResult:
    """The result of a replay on the virtual GPU `gpu` that ended with `report`."""
    ok = report.ok
    return ReplayResult(
        ok=ok,
        device=device,
        report=report,
        outputs=outputs if ok else {},
        instructions=instructions,
        trace_bytes=len(delivery),
        compute=FULL if executes_shaders(gpu) else NONE,
        error="" if ok else report.describe(profile_of(gpu)),
        evidence=evidence,
    )
