# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that are measured, kept in the user's cache: recording a large network takes minutes.

A recording's file is named by the programs that made it, by what it says besides
(host_tools.accesses.noted_accesses) and by the network's files, so that others do not find it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from host_tools.accesses import noted_accesses
from host_tools.machine.root import ready_root
from host_tools.record.ncnn.network import record_network
from host_tools.support.cache import cache_dir, written_whole

BOOT_S = 7200  # limit of a boot: the machine may have other work


@dataclass(frozen=True)
class Network:
    """ncnn's two files, and the shapes of the inputs."""

    param: bytes
    weights: bytes
    shapes: Mapping[str, tuple[int, ...]]


def recorded(
    name: str,
    network: Network,
    *,
    prefix: str = "",
    until: tuple[str, ...] = (),
    tolerance: float | None = None,
    compress: bool = True,
    gpu: str = "v3d42",
    fp16: bool = False,
) -> Path:
    """The file of a network's recording, which is made unless the cache has it.

    Args:
        name: of the network.
        prefix: of the file's name, for recordings made in another way.
        until, tolerance: as `record_network`.
        compress: pack what packs well.
        gpu, fp16: as `record_network`; another prefix than for other recordings of the network.
    """
    made_by = ready_root().key.encode() + Path(noted_accesses.__file__).read_bytes()
    key = hashlib.sha256(made_by + network.param + network.weights).hexdigest()[:16]
    kept = cache_dir("bench") / f"{prefix}{name}-{key}.raw.gtr"
    if not kept.exists():
        trace = record_network(
            network.param,
            network.weights,
            network.shapes,
            name=name.replace(".", "_"),
            until=until,
            tolerance=tolerance,
            timeout=BOOT_S,
            gpu=gpu,
            fp16=fp16,
        )
        with written_whole(kept) as path:
            path.write_bytes(trace.build(compress=compress))
    return kept
