# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: what networks cost, from the recording to the replay in the secure world.

The demo network comes from the committed recording; the large ones are recorded (and kept in the user's cache).
Sizes are bytes; instructions are counted by QEMU's instruction clock, at EL3, on the compiled firmware.
"""

from __future__ import annotations

import lzma
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs.examples import models
from host_tools import runners
from host_tools.accesses.observe import random_inputs
from host_tools.demo import RAW
from host_tools.model.interpreter import interpreter
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import firmware
from host_tools.runners.replay import Instructions, ReplayResult, Tensor
from host_tools.runners.requests import FirmwareRequest
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.recordings import Network, recorded
from tests.support.plain_core import without_features
from trace_format.trace import Trace

SEED = 11


LARGE = {"mobilenet": ("mobilenet_v1", 224), "squeezenet": ("squeezenet_v1_1", 227)}


@dataclass(frozen=True)
class Row:
    """Figures of one network; bytes and instructions. The first replay is one with the prologue.

    Attributes:
        xz_bytes: of the recording without the recorded input, which the trace does not have either.
        plain_start: of verifying and loading on a core without instructions for SHA-256.
    """

    name: str
    jobs: int
    raw_bytes: int
    xz_bytes: int
    signed_bytes: int
    secure_bytes: int
    verify: int
    load: int
    plain_start: int
    replay: int
    shader_instructions: int
    shader_rate: float

    @property
    def first_output(self) -> int:
        """Instructions of the firmware until the first output is there."""
        return self.verify + self.load + self.replay


def raw_trace(name: str) -> bytes:
    """The recording of a network, as a trace."""
    return raw_file(name).read_bytes()


def raw_file(name: str) -> Path:
    """The file of a network's recording: `lenet` as committed, the others recorded unless the cache has them."""
    if name == "lenet":
        return RAW
    builder, size = LARGE[name]
    param, weights = getattr(models, builder)(seed=SEED, size=size)
    return recorded(name, Network(param, weights, {"data": (3, size, size)}), compress=False)


def measure(name: str) -> Row:
    """All figures of one network."""
    data = raw_trace(name)
    raw = Trace.parse(data)
    trace = build(raw, source=data)
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(trace.build(), signer)
    inputs = random_inputs(trace, SEED)
    given: tuple[Any, ...] = (Delivery(signed), signer.public, inputs)
    result = runners.run("qemu", *given)
    with tempfile.TemporaryDirectory() as folder:
        plain = _plain_firmware(FirmwareRequest(*given), Path(folder))
        result_plain = runners.run("qemu", *given, firmware=plain)
    reference = runners.run("vgpu", *given)
    for found in (result, result_plain):
        if not found.ok or found.outputs["prob"].tobytes() != reference.outputs["prob"].tobytes():
            raise AssertionError(f"{name}: {found.error or 'runners disagree'}")
    counted, counted_plain = (_counted(found) for found in (result, result_plain))
    bare = PASSES[KEEP_INPUTS[0]](raw)
    shader_instructions, rate = _shaders(trace, inputs)
    return Row(
        name,
        result.jobs,
        len(data),
        len(lzma.compress(bare.build(compress=False), preset=9 | lzma.PRESET_EXTREME)),
        len(signed),
        result.secure_bytes,
        counted.verify,
        counted.load,
        counted_plain.verify + counted_plain.load,
        counted.replay,
        shader_instructions,
        rate,
    )


def _counted(result: ReplayResult) -> Instructions:
    assert result.instructions is not None
    return result.instructions


def _plain_firmware(request: FirmwareRequest, folder: Path) -> Path:
    """The firmware of a replay, in a folder, as a core without instructions for SHA-256 would run it."""
    made = firmware.firmware_for(request)
    for name in (firmware.ELF, firmware.BINARY):  # which are compared with one another
        (folder / name).write_bytes(without_features((made.folder / name).read_bytes()))
    return folder


def _shaders(trace: Trace, inputs: Mapping[str, Tensor]) -> tuple[int, float]:
    """Shader instructions of a replay, and millions a second and core, by CPU time on one thread."""
    with interpreter(trace, threads=1) as run:
        run.run(inputs)
        first = run.gpu.counters().instructions
        start = time.process_time()
        run.run(inputs)
        seconds = time.process_time() - start
        return first, (run.gpu.counters().instructions - first) / seconds / 1e6


def lines(rows: list[Row]) -> dict[str, list[str]]:
    """What to print: a line a figure, a cell a network."""
    return {
        "GPU jobs": [f"{r.jobs}" for r in rows],
        "recording, bytes": [f"{r.raw_bytes:,}" for r in rows],
        "recording without its input under xz -9e, bytes": [f"{r.xz_bytes:,}" for r in rows],
        "signed trace, bytes": [f"{r.signed_bytes:,}" for r in rows],
        "  of xz -9e": [f"{r.signed_bytes / r.xz_bytes:.2f}" for r in rows],
        "secure memory, bytes": [f"{r.secure_bytes:,}" for r in rows],
        "verify signature, CPU instructions": [f"{r.verify:,}" for r in rows],
        "hash and unpack, CPU instructions": [f"{r.load:,}" for r in rows],
        "  both without instructions for SHA-256": [f"{r.plain_start:,}" for r in rows],
        "first replay, CPU instructions": [f"{r.replay:,}" for r in rows],
        "from reset to the first output": [f"{r.first_output:,}" for r in rows],
        "one replay, shader instructions": [f"{r.shader_instructions:,}" for r in rows],
        "virtual GPU, M shader instructions/s/core": [f"{r.shader_rate:,.0f}" for r in rows],
    }


def firmware_bytes() -> dict[str, int]:
    """Bytes of the firmware for v3d42 on qemu-virt with ES256, as `make -C out size` counts them."""
    key = FileSigner(generate(Algorithm.ES256)).public
    return firmware.sizes(firmware.build(key).folder)
