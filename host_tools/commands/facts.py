# SPDX-License-Identifier: BSD-2-Clause
"""What several commands say of a trace, and the name that they may give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, UnsetType

from host_tools.model.facts import NAME_BYTES, SlotFacts, default_name
from host_tools.support.results import Count, Result
from trace_format.errors import GramophoneError, listed
from trace_format.network import Network

if TYPE_CHECKING:  # help waits for no NumPy
    from trace_format.trace import Trace


class _Name(click.ParamType[str]):
    """A trace's name: what fits into the manifest."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value)
        if not name or default_name(name) != name:
            self.fail(f"expected 1 to {NAME_BYTES} bytes of UTF-8, found {name!r}", param, ctx)
        return name


NAME = _Name()


def network_words(network: Network) -> str:
    """A network of a joint trace, for people."""
    time = f", {network.predicted_us} us" if network.predicted_us else ""
    shared = ", exclusive" if network.exclusive else ""
    return (
        f"{network.name}: actions {network.first_action} to {network.end_action}, slots {network.first_slot} to "
        f"{network.end_slot}, pages {network.first_page} to {network.end_page}, of the image "
        f"{', '.join(f'{first} to {end}' for first, end in network.image) or 'none'}{shared}{time}"
    )


def check_single(trace: Trace, file: str) -> None:
    """GramophoneError: a joint trace, where one network is wanted."""
    if trace.networks:
        names = listed(network.name for network in trace.networks)
        raise GramophoneError(
            f"{file} is a joint trace: expected a trace of one network "
            "('gramophone sharing join --take NAME' makes one), "
            f"found {names}"
        )


def check_whole(trace: Trace, file: str) -> None:
    """GramophoneError: a streamed trace, where one is wanted that is loaded at once."""
    if trace.streamed:
        raise GramophoneError(
            f"{file} is a streamed trace: expected one that is loaded at once "
            f"('gramophone build' without --secure-memory makes it), found {len(trace.streamed)} pieces"
        )


class TraceFacts(Result):
    """A trace.

    Attributes:
        trace_id: Identity of the trace, in hex.
        raw: A recording, no pass has run.
        source_hash: SHA-256 of the recording that it was built of, in hex.
    """

    name: str
    trace_id: str
    gpu: str
    raw: bool
    jobs: Count
    actions: Count
    image_bytes: Count
    carveout_bytes: Count
    va_bytes: Count
    slots: list[SlotFacts]
    networks: list[Network] | UnsetType = UNSET
    source_hash: str | UnsetType = UNSET
    security_version: Count | UnsetType = UNSET
    recorder: str | UnsetType = UNSET
    kernel: str | UnsetType = UNSET
    driver: str | UnsetType = UNSET
    framework: str | UnsetType = UNSET


class TraceMade(TraceFacts, kw_only=True):
    """A trace that was written."""

    trace_bytes: Count


def facts(trace: Trace, trace_id: bytes | None = None) -> dict[str, Any]:
    """What every command says about a trace: the fields of `TraceFacts`.

    Args:
        trace_id: its identity, where that is known; to find it, the whole image is hashed.
    """
    return {
        "name": trace.meta.get("name", ""),
        "trace_id": (trace_id or trace.trace_id).hex(),
        "gpu": trace.gpu,
        "raw": trace.raw,
        "jobs": trace.jobs,
        "actions": len(trace.actions),
        "image_bytes": len(trace.image),
        "carveout_bytes": trace.carveout_bytes,
        "va_bytes": trace.va_bytes,
        "slots": [
            SlotFacts(
                name=s.name,
                kind=s.kind.name.lower(),
                dtype=s.dtype.name.lower(),
                shape=s.shape,
                strides=s.strides,
                address=s.address,
                bound=s.bound,
            )
            for s in trace.slots
        ],
        **({"networks": trace.networks} if trace.networks else {}),
        **{
            k: v.hex() if isinstance(v, bytes) else v
            for k, v in trace.meta.items()
            if k in ("security_version", "source_hash", "recorder", "kernel", "driver", "framework")
        },
    }
