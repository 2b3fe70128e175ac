"""Runners: what a replay can run on. Each module has `replay(signed, key, inputs, ...) -> ReplayResult`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from host_tools.runners.replay import ReplayResult, Tensor
    from signing.keys import PublicKey

RUNNERS = ("vgpu", "unicorn", "qemu")
OPTEE = "optee"  # needs OP-TEE and TF-A, built from Debian's sources
NORMAL_WORLDS = {"bare-metal": "optee.bare_metal", "linux": "optee.linux"}  # of OP-TEE's machine -> module
ON_THE_HOST = ("vgpu",)  # without firmware


def run(
    runner: str,
    signed: bytes,
    key: PublicKey,
    inputs: Mapping[str, Tensor],
    *,
    firmware: Path | None = None,
    **options: Any,
) -> ReplayResult:
    """Replay on the runner called `runner`; the options are those of its `replay`."""
    if runner not in ON_THE_HOST:
        options["firmware"] = firmware
    result: ReplayResult = importlib.import_module(f"host_tools.runners.{runner}").replay(
        signed, key, inputs, **options
    )
    return result
