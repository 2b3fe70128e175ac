# SPDX-License-Identifier: BSD-2-Clause
"""How many multiply-additions an instruction ncnn's own kernels for the CPU do, in the recording guest.

Time counts instructions there (-icount, host_tools/machine/boot.py), so the guest's clock around an inference says
how many there were: of a network of one layer, with one thread, in float32. What is around the layer is counted,
too: input and output are copied, and packed by fours.
"""

from __future__ import annotations

import json
import math

import numpy as np

from host_tools.machine.boot import GuestJob, boot
from host_tools.machine.root import ready_root
from host_tools.record.ncnn.job import GUEST_PROGRAM
from host_tools.vgpu.build import qemu_plugin

NS_AN_INSTRUCTION = 2  # -icount shift=1
_PROGRAM = b"""
import json, math, sys, time
sys.path.insert(0, "/job")
from guest_ncnn import infer, load
found = []
for at, (inner, *picture) in enumerate(json.load(open("/job/shapes"))):
    net = load(f"/job/{at}.param", f"/job/{at}.bin", False)
    given = memoryview(bytes(4 * math.prod([inner, *picture]))).cast("f", [inner, *picture])
    times = []
    for _ in range(3):
        start = time.perf_counter_ns()
        infer(net, {"given": given}, ["made"])
        times.append(time.perf_counter_ns() - start)
    found.append(min(times))
json.dump(found, open("/out/times", "w"))
"""


def rates(layers: list[tuple[int, ...]]) -> list[float]:
    """Multiply-additions an instruction.

    Args:
        layers: output channels, input channels and the pixels of a pointwise convolution; without pixels, of a
            fully connected layer.
    """
    files = {"job/bench.py": _PROGRAM, "job/guest_ncnn.py": GUEST_PROGRAM.read_bytes()}
    shapes = []
    for at, (rows, inner, *pixels) in enumerate(layers):
        high = next((n for n in range(math.isqrt(pixels[0]), 0, -1) if pixels[0] % n == 0), 0) if pixels else 0
        shapes.append([inner, high, pixels[0] // high] if pixels else [inner])
        layer = f"Convolution layer 1 1 given made 0={rows} 1=1 5=1 6={rows * inner} 9=3 -23310=2,0.0,6.0"
        dense = f"InnerProduct layer 1 1 given made 0={rows} 1=1 2={rows * inner}"
        text = f"7767517\n2 2\nInput given 0 1 given\n{layer if pixels else dense}\n"
        weights = np.random.default_rng(at).normal(0, 1, rows * inner + rows).astype("<f4")
        files |= {f"job/{at}.param": text.encode(), f"job/{at}.bin": bytes(4) + weights.tobytes()}
    files["job/shapes"] = json.dumps(shapes).encode()
    job = GuestJob("python3.13 -S -B /job/bench.py", files, uses_gpu=False)
    found = json.loads(boot(job, ready_root(), qemu_plugin()).files["times"])
    return [NS_AN_INSTRUCTION * math.prod(sizes) / ns for sizes, ns in zip(layers, found, strict=True)]
