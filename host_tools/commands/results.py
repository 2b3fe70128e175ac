# SPDX-License-Identifier: BSD-2-Clause
"""Types of what several commands print with `--json`. Those of one command stand beside it."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from host_tools.model.summary import SlotFacts
from host_tools.support.results import Count, Result, one_of
from signing import keys
from trace_format.networks import Network

AlgorithmName = Annotated[str, one_of(*(algorithm.title for algorithm in keys.Algorithm))]


class TraceFacts(Result):
    """A trace."""

    name: str
    trace_id: Annotated[str, Meta(description="Identity of the trace, in hex.")]
    gpu: str
    raw: Annotated[bool, Meta(description="A recording, no pass has run.")]
    jobs: Count
    actions: Count
    image_bytes: Count
    carveout_bytes: Count
    va_bytes: Count
    slots: list[SlotFacts]
    networks: list[Network] | UnsetType = UNSET
    source_hash: (
        Annotated[str, Meta(description="SHA-256 of the recording that it was built of, in hex.")] | UnsetType
    ) = UNSET
    security_version: Count | UnsetType = UNSET
    recorder: str | UnsetType = UNSET
    kernel: str | UnsetType = UNSET
    driver: str | UnsetType = UNSET
    framework: str | UnsetType = UNSET


class TraceMade(TraceFacts, kw_only=True):
    """A trace that was written."""

    trace_bytes: Count
