# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: the replayer in OP-TEE: what it adds to the core, and what the demo network costs there."""

from __future__ import annotations

import tempfile
from pathlib import Path

from host_tools.accesses.observe import random_inputs
from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from host_tools.runners import libraries, run
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator.boards import OPTEE
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support.optee_size import added_bytes
from trace_format.trace import Trace

SEED = 5
BUILDS = {
    "V3D 4.2": ("v3d42", False),
    "V3D 4.2, shared with the normal world": ("v3d42", True),
    "Mali G71": ("mali_g71", False),
}


def measure() -> dict[str, int]:
    """Figures by name: bytes of the pseudo-TA, instructions of the demo network in OP-TEE and on bare metal.

    Raises:
        GramophoneError: OP-TEE cannot be built, or QEMU is missing.
    """
    signer = FileSigner(generate(Algorithm.ES256))
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        for title, (gpu, shared) in BUILDS.items():
            folder = generate_sources(
                Options(gpu, platform_of(OPTEE), signer.public, libraries.source(), share_gpu=shared),
                Path(name) / "pta",
            )
            figures[f"pseudo-TA for {title}, bytes"] = added_bytes(folder)
    data = RAW.read_bytes()
    trace = build(Trace.parse(data), source=data)
    signed, inputs = sign_trace(trace.build(), signer), random_inputs(trace, SEED)
    for title, runner in (("OP-TEE", "optee"), ("bare metal", "qemu")):
        result = run(runner, Delivery(signed), signer.public, inputs)
        assert result.instructions, result.error
        figures[f"lenet in {title}: verify, CPU instructions"] = result.instructions.verify
        figures[f"lenet in {title}: load"] = result.instructions.load
        figures[f"lenet in {title}: one replay"] = result.instructions.replay
    return figures
