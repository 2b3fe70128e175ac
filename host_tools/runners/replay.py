# SPDX-License-Identifier: BSD-2-Clause
"""The interface of a runner: what a caller requests, what a runner takes and gives back, and the errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from host_tools.families.family import profile_of
from host_tools.vgpu.binding import executes_shaders
from signing.delivery import Delivery
from signing.trust import Anchor
from signing.trust_verdict import NO_ID
from tee_replayer.generator.status import Report
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

Tensor = npt.NDArray[Any]

FULL, NONE = "full", "none"  # ReplayResult.compute


class InputError(GramophoneError):
    """A tensor that does not fit the trace's slots."""


class RunnerError(GramophoneError):
    """The emulator itself failed: it is missing, did not end, or gave no answer."""


@dataclass(frozen=True)
class ReplayRequest:
    """A replay to be run: what every runner takes. Each runner's own request has more (`runners.requests`).

    Attributes:
        delivery: the signed trace; its bytes are what the device is given.
        key: whose traces are accepted: an ES256 key, or a trust policy.
        inputs: slot name -> tensor; those left out keep the recording's value.
        gpu: the virtual GPU; None: that of the trace.
        repeat: replays in a row; the outputs are those of the last one, but for `each`.
        min_security_version: older traces are refused.
        bearssl, aws_lc: the crypto libraries' sources, for what is compiled for this replay; None: Debian's.
        device_id: 16 bytes, for trust policies that name devices; zeros: it has none.
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

    @property
    def trace(self) -> Trace | None:
        """What is replayed; None when it is damaged (`Delivery.trace`)."""
        return self.delivery.trace


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
    """What a replay can run on. Each runner is a module with these two names."""

    @property
    def REQUEST(self) -> type[ReplayRequest]:
        """The type of its requests, whose fields are the options that it takes."""

    def replay(self, request: Any) -> ReplayResult:
        """Verify, load and replay a signed trace.

        Args:
            request: of the runner's own type.

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
