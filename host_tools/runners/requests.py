# SPDX-License-Identifier: BSD-2-Clause
"""Options that several runners take, each group a type that their requests derive from.

A runner takes what is a field of its request's type. `WHY_NOT` says of the other options why it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from host_tools.runners.replay import ReplayRequest, RunnerError, Tensor
from signing.trust_verdict import NO_ID

Watch = Callable[[int, Mapping[str, bytes]], bool | None]
_NO_LOG = "no firmware with a log runs there; on OP-TEE 'gramophone-tee replay --entries' reads it"
_NO_DEVICE = "no firmware that uses it runs there"
_NO_TROUBLE = "its virtual GPU is not in this process"
WHY_NOT = {  # of a runner whose requests lack a field
    "series": "all replays of a boot there have the same inputs",
    "each": "only the last replay's outputs come back from there",
    "watch": "outputs cannot be seen there before the end",
    "firmware": "no firmware runs there",
    "plugin_args": "QEMU does not run there",
    "timeout_s": "no machine boots there",
    "store": _NO_LOG,
    "has_log": _NO_LOG,
    "nonce": _NO_LOG,
    "flash": _NO_DEVICE,
    "clock": _NO_DEVICE,
    "latency_ns": _NO_TROUBLE,
    "hang_job": _NO_TROUBLE,
    "fault_job": _NO_TROUBLE,
    "network": "only vgpu replays joint traces",
}


@dataclass(frozen=True, kw_only=True)
class SeriesRequest(ReplayRequest):
    """Replays in a row that differ.

    Attributes:
        series: slot name -> tensors of all replays, the first dimension being the replay's.
        each: outputs that are wanted of all replays, in the same form.
    """

    series: Mapping[str, Tensor] = field(default_factory=dict)
    each: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class WatchedRequest(SeriesRequest):
    """Outputs while a machine runs.

    Attributes:
        watch: called from another thread with the number of a replay that is over (from 0) and the bytes of what
            `each` names; not of the last replay. True: that was enough, and the machine is ended.
    """

    watch: Watch | None = None


@dataclass(frozen=True, kw_only=True)
class FirmwareRequest(ReplayRequest):
    """Firmware that runs.

    Attributes:
        firmware: folder that `generate` wrote, compiled where it has a make file; None: one is made for `key`.

    Raises:
        RunnerError: the firmware is given, and so is something that is compiled into it.
    """

    firmware: Path | None = None

    def __post_init__(self) -> None:
        if self.firmware is None:
            return
        if self.bearssl or self.aws_lc:
            raise RunnerError(
                f"{self.firmware}: the firmware has its own crypto libraries; no others can be given"
            )
        if self.device_id != NO_ID:
            raise RunnerError(f"{self.firmware}: the firmware has its own device id; no other can be given")
        if self.min_security_version:
            raise RunnerError(
                f"{self.firmware}: the minimum security version is that which the firmware was generated with; "
                "no other can be given"
            )


@dataclass(frozen=True, kw_only=True)
class MachineRequest(FirmwareRequest):
    """A machine that boots.

    Attributes:
        plugin_args: further arguments of the QEMU plugin (host_tools/vgpu/qemu).
        timeout_s: of real time, for the whole run; None: the runner's own.
    """

    plugin_args: Mapping[str, str] | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class BoardRequest(ReplayRequest):
    """What a bare-metal board keeps and knows.

    Attributes:
        store: folder with what an emulated board keeps: its secret, and of a replay log what outlives a boot.
        has_log: with `store`, whether the firmware has a replay log, whose entries are wanted.
        flash: file of the flash in which an emulated board with a rollback store keeps versions, made where there
            is none.
        clock: what the clock of an emulated board says, in seconds since 1970 (UTC); None: QEMU's says what time
            it is, and Unicorn has none.
        nonce: of a verifier, for an attestation.
    """

    store: Path | None = None
    has_log: bool = True
    flash: Path | None = None
    clock: int | None = None
    nonce: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class TroubleRequest(ReplayRequest):
    """Test aids.

    Attributes:
        latency_ns: how long the virtual GPU takes for what takes time.
        hang_job, fault_job: the compute job (from 1) that never completes, or faults.
    """

    latency_ns: int = 0
    hang_job: int = 0
    fault_job: int = 0
