# SPDX-License-Identifier: BSD-2-Clause
"""A boot of firmware with a replay log in Unicorn, in this process, so that hooks can watch it."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.runners import evidence, firmware, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.runners.firmware import Firmware
from host_tools.runners.requests import BoardRequest
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator.status import Report
from tests.support import replayer_samples as s

INPUT = np.arange(6, dtype="<f4").reshape(2, 3)
DRAM_BYTES = 1 << 20


def boot(
    folder: Path,
    store: Path | None,
    watch: Callable[[Any, Firmware], None],
    *,
    nonce: bytes | None = None,
    repeat: int = 1,
) -> Report:
    """Boot it with the small trace of the tests.

    Args:
        folder: generated and compiled.
        store: what the board keeps; None: firmware without a log.
        watch: gets Unicorn's engine before the first instruction, and the firmware.
        nonce: for an attestation.
        repeat: how many replays.

    Returns:
        What the firmware has reported.
    """
    fw = firmware.load(folder)
    trace = s.trace()
    data = s.signed(trace)
    request = BoardRequest(Delivery(data), s.KEY, {"in": INPUT}, repeat=repeat, store=store, nonce=nonce)
    buffers = bind(trace, request.inputs)
    dram = np.frombuffer(mmap.mmap(-1, DRAM_BYTES), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, data, buffers, repeat, evidence.extras(request))
    with VirtualGpu("v3d42", {fw.board.carveout_base: carveout}) as device:
        machine = unicorn.Machine(fw, device, carveout, dram, store=store)
        watch(machine._uc, fw)
        machine.run()
    return mailbox.response(dram.data, buffers, places)
