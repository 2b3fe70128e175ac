# SPDX-License-Identifier: BSD-2-Clause
"""What the recorded register accesses of a GPU become in a raw trace: what the recorder needs from each family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from host_tools.vgpu import capture
from trace_format.actions import Action

IRQ_TIMEOUT_US = 5_000_000  # ten times the 500 ms after which Linux calls a job hung (panfrost_job.c, v3d_sched.c)


class Conversion(Protocol):
    """Register accesses and interrupts, one after the other, that become actions.

    Attributes:
        actions: all that has been made; the recorder adds to them too.
        new_layout: whether the trace lays memory out afresh: passes take what is consecutive in the carve-out for
            one buffer (host_tools/gpus/mali/job_chains.py), and the guest's pages are scattered.
    """

    actions: list[Action]
    new_layout: bool

    @property
    def space(self) -> int:
        """Address space of the latest job."""

    @property
    def meta(self) -> dict[str, Any]:
        """What the accesses say for the manifest."""

    def take_event(self, at: int, event: capture.Event) -> None:
        """Add what an access means; other events are the recorder's. at: place in the capture, in bytes."""

    def flush_tables(self) -> list[Action]:
        """Actions that make the GPU see mappings that changed after its page table was set."""

    def finish(self) -> None:
        """There are no more events."""


@dataclass(frozen=True)
class Streams:
    """Command streams that a conversion adds, which the GPU may only read: `data` from a virtual page on."""

    space: int
    va_page: int
    data: bytes


@runtime_checkable
class CallConversion(Conversion, Protocol):
    """Of a GPU whose jobs are calls of command streams: register accesses and interrupts become no actions."""

    def call(self, where: int, call: capture.Call) -> Action:
        """The action that calls a stream again; `where`: place in the capture, in bytes."""

    def added(self) -> Streams:
        """What all calls needed besides what was recorded."""
