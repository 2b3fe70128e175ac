# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: the public GPUReplay recordings of a Mali G71, compared with what their own replayer costs.

The recordings are found as the tests find them (tests/support/recordings.py). Instructions on the host are
callgrind's, with OpenSSL for the cryptography; on the device QEMU's, with the firmware's own. Parameters are not
in the recordings: they are bound to zeros at run time, and copying them is counted separately.

The original was measured on x86-64, a device executes AArch64: ratios of the two compare kinds, not programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from host_tools import runners
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.pipeline import build
from host_tools.runners import firmware
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench import instructions
from tests.support import recordings
from trace_format.schema import PAGE_BYTES, SlotKind

GPU = "mali_g71"


@dataclass(frozen=True)
class Original:
    """What the original replayer costs, and the size of its recording under `xz -9e`.

    Measured on x86-64 with gcc -O3 and callgrind, kernel work not counted; it neither verifies nor clears. Pages
    are those that the recording maps. (The project's facts on the Mali G71 and on speed.)

    Attributes:
        replay: its gr_replay.c counts to 1000 before each register access; `undelayed` is a replay without that.
    """

    xz_bytes: int
    start: int
    replay: int
    undelayed: int
    pages: int


ORIGINAL = {
    "mnist": Original(27_532, 10_181_773, 2_371_342, 124_920, 1_185),
    "alexnet": Original(83_452, 61_082_820, 5_716_162, 373_631, 174_563),
    "mobilenet": Original(46_676, 40_555_827, 8_843_646, 595_071, 11_456),
}


@dataclass(frozen=True)
class Row:
    """Figures of one recording; bytes and instructions. `host` and `device` are of the same signed trace."""

    name: str
    jobs: int
    signed_bytes: int
    secure_bytes: int
    memory_bytes: int
    start: int
    clearing: int
    prologue: int
    replay: int
    copying: int
    copied_bytes: int
    device_verify: int
    device_load: int
    device_replay: int


def measure(name: str) -> Row:
    """All figures of one recording."""
    folder = recordings.folder(recordings.GPUREPLAY) / name
    trace = build(import_gpureplay(folder, name))
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(trace.build(), signer)
    inputs = {
        slot.name: np.zeros(slot.shape, slot.numpy_dtype) for slot in trace.slots if slot.kind != SlotKind.OUTPUT
    }
    result = runners.run("qemu", Delivery(signed), signer.public, inputs, gpu="mali_g71-noshaders")
    if not result.ok or result.jobs != trace.jobs or result.instructions is None:
        raise AssertionError(f"{name}: {result.error or 'not all jobs are done'}")
    host = instructions.count(signed, signer.public, trace, openssl=True)
    load, steady = host["load"], host["second"]
    return Row(
        name,
        result.jobs,
        len(signed),
        result.secure_bytes,
        trace.carveout_bytes,
        load.without_clearing,
        load.clearing,
        host["first"].work - steady.work,
        steady.work,
        steady.copying,
        sum(array.nbytes for array in inputs.values()),
        result.instructions.verify,
        result.instructions.load,
        result.instructions.replay,
    )


def firmware_bytes() -> dict[str, int]:
    """Bytes of the firmware for mali_g71 on qemu-virt with ES256, as `make -C out size` counts them."""
    key = FileSigner(generate(Algorithm.ES256)).public
    return firmware.sizes(firmware.build(key, gpu=GPU).folder)


def lines(rows: list[Row]) -> dict[str, list[str]]:
    """What to print: a line a figure, a cell a recording; ratios to the original's."""
    originals = [ORIGINAL[row.name] for row in rows]

    def ratio(ours: list[int], theirs: list[int]) -> list[str]:
        pairs = zip(ours, theirs, strict=True)
        return [f"1/{their / our:.1f}" if our < their else f"{our / their:.1f}" for our, their in pairs]

    replay = [r.replay for r in rows]
    start = [r.start + r.clearing + r.prologue for r in rows]
    on_device = [r.device_verify + r.device_load for r in rows]
    return {
        "GPU jobs": [f"{r.jobs}" for r in rows],
        "original recording under xz -9e, bytes": [f"{o.xz_bytes:,}" for o in originals],
        "signed trace, bytes": [f"{r.signed_bytes:,}" for r in rows],
        "  of xz -9e": [f"{r.signed_bytes / o.xz_bytes:.2f}" for r, o in zip(rows, originals, strict=True)],
        "original, GPU memory, bytes": [f"{o.pages * PAGE_BYTES:,}" for o in originals],
        "GPU memory, bytes": [f"{r.memory_bytes:,}" for r in rows],
        "secure memory in all, bytes": [f"{r.secure_bytes:,}" for r in rows],
        "original, start-up, host": [f"{o.start:,}" for o in originals],
        "start-up, all of it, host": [f"{n:,}" for n in start],
        "  to the original's": ratio(start, [o.start for o in originals]),
        "  of it signature, hashes and unpacking": [f"{r.start:,}" for r in rows],
        "  of it clearing memory": [f"{r.clearing:,}" for r in rows],
        "  of it the first replay's prologue": [f"{r.prologue:,}" for r in rows],
        "original, a replay, host": [f"{o.replay:,}" for o in originals],
        "original, a replay without its delay loops, host": [f"{o.undelayed:,}" for o in originals],
        "a replay, without copying, host": [f"{n:,}" for n in replay],
        "  to the original's ": ratio(replay, [o.replay for o in originals]),
        "  to the original's without its delay loops": ratio(replay, [o.undelayed for o in originals]),
        "copying input and parameters, host": [f"{r.copying:,}" for r in rows],
        "  bytes copied": [f"{r.copied_bytes:,}" for r in rows],
        "verify signature, device": [f"{r.device_verify:,}" for r in rows],
        "clear, hash and unpack, device": [f"{r.device_load:,}" for r in rows],
        "  both, to the original's start-up on a host": ratio(on_device, [o.start for o in originals]),
        "a replay with copying, device": [f"{r.device_replay:,}" for r in rows],
    }
