# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: from the start of a program to its first output, the full stack beside the replayer, in one boot.

Counted are the instructions of the whole machine, kernel included (tests/bench/count_machine.c). Shaders count for
nothing: the virtual GPU runs them while time stands still.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host_tools.machine.boot import BOOT_TIMEOUT_S, boot
from host_tools.machine.root import ready_root
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn.job import ncnn_job
from host_tools.record.shader_cache import with_shader_cache
from host_tools.record.tolerances import TOLERANCE
from host_tools.runners import user_space
from host_tools.runners.firmware import CROSS
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.tensors import npy
from host_tools.vgpu.build import qemu_plugin
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.networks import LARGE, raw_trace
from tests.support import networks
from trace_format.trace import Trace

COUNTER = Path(__file__).with_name("count_machine.c")
PYTHON = "python3.13 -S -B -c"


@dataclass(frozen=True)
class Startup:
    """Instructions of one network.

    Attributes:
        name: of the network.
        cold: ncnn, Mesa, which compiles the shaders, and the kernel's driver.
        full: the same with Mesa's shader cache warm.
        importing: of these, Python's start with ncnn's module.
        replay: `gramophone-gpu`, which verifies, loads and replays.
        nothing: a program that does nothing; it is in all of them.
    """

    name: str
    cold: int
    full: int
    importing: int
    replay: int
    nothing: int

    @property
    def ratios(self) -> tuple[float, float]:
        """The full stack's to the replayer's, cold and warm."""
        return self.cold / self.replay, self.full / self.replay


def measure(name: str) -> Startup:
    """Figures of a network, `lenet` or one of `networks.LARGE`.

    Raises:
        GramophoneError: the guest, the recording or the cross compiler is missing, or a result differs.
    """
    network = LARGE[name][0] if name in LARGE else name
    param, weights = networks.network(network)
    picture = networks.picture(network)
    zeros = {"data": np.zeros_like(picture)}
    root, plugin = ready_root(), qemu_plugin()
    full = with_shader_cache(
        ncnn_job(param, weights, {"data": picture}), ncnn_job(param, bytes(len(weights)), zeros), root, plugin
    )
    data = raw_trace(name)
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(build(Trace.parse(data), source=data).build(), signer)
    files = {"job/net.sgtr": signed, "job/data.npy": npy(picture), "job/full": full.command.encode()}
    files["usr/bin/count"] = _counter()
    replay = "gramophone-gpu replay /job/net.sgtr --input data=/job/data.npy --output prob=/out/prob.npy"
    commands = {
        "nothing": "true",
        "importing": f"{PYTHON} {shlex.quote('import ncnn')}",
        "cold": "env MESA_SHADER_CACHE_DIR=/cold sh /job/full",
        "full": "sh /job/full",
        "replay": replay,
    }
    script = [user_space.LOAD, "set -e"]
    before = {"full": ["rm -r /out/gpu"], "replay": ["gramophone-gpu take"]}  # the job makes /out/gpu
    for title, command in commands.items():
        script += [*before.get(title, ()), f"count /out/{title} {command}"]
    script.append("gramophone-gpu give-back")
    job = user_space.job_with(
        root,
        user_space.build(signer.public, DEFAULT_GPU),
        "\n".join(script),
        {**full.files, **files},
        DEFAULT_GPU,
        full.programs | {"usr/bin/count"},
    )
    done = boot(job, root, plugin, timeout=4 * BOOT_TIMEOUT_S)
    expected = np.frombuffer(done.files["gpu/0"], "<f4")
    found = np.frombuffer(done.files["prob.npy"][-expected.nbytes :], "<f4")
    difference = relative_difference(found, expected)
    if not difference <= TOLERANCE:
        raise AssertionError(f"{name}: the replay differs from the full stack's result by {difference:.2e}")
    return Startup(name, **{title: int(done.files[title]) for title in commands})


def _counter() -> bytes:
    """count_machine.c, compiled for the guest."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "count"
        subprocess.run([f"{CROSS}gcc", "-O2", "-static", "-o", str(program), str(COUNTER)], check=True)
        return program.read_bytes()
