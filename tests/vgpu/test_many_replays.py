# SPDX-License-Identifier: BSD-2-Clause
"""LeNet replayed again and again: the same output, no retry, and no more memory than at first."""

from __future__ import annotations

import mmap
import resource

import numpy as np

from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tests.support import replayer_samples as s
from tests.support.sampling import SomeOf
from trace_format.trace import Trace

REPLAYS, SAMPLE = 100_000, 400
WARM_UP = 50
GROWTH_KIB = 1024  # of the process; what one replay lost would be a hundred thousand times as much


def test_replays_do_not_wear_out(some_of: SomeOf) -> None:
    carveout = mmap.mmap(-1, 1 << 20)
    images = np.load(RAW.parent / "digits.npz")["images"][:10].astype(np.float32) / 255
    expected: dict[int, bytes] = {}
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: carveout}) as device:
        replayer = hostlib.HostReplayer(s.library(), s.GPU, device.c_interface, carveout, s.CARVEOUT_PHYS)
        first = replayer.load(s.signed(build(Trace.read(RAW))), s.KEY)
        data, output = np.empty((1, 28, 28), np.float32), np.zeros(10, np.float32)
        replayer.bind(0, data)
        replayer.bind(1, output)
        before = 0
        for count, number in enumerate(some_of(range(REPLAYS), SAMPLE)):
            digit = number % len(images)
            data[:] = images[digit]
            report = replayer.run()
            assert (report.retries, report.jobs, report.secure_bytes) == (0, 14, first.secure_bytes)
            assert expected.setdefault(digit, output.tobytes()) == output.tobytes(), f"replay {count}"
            if count == WARM_UP:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert len(expected) == len(set(expected.values())) == len(images)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= before + GROWTH_KIB
        assert device.counters().resets == 1
        replayer.unload()
    assert not any(carveout[:])
