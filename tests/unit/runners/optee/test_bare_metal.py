# SPDX-License-Identifier: BSD-2-Clause
"""The small normal world of OP-TEE's machine, as far as nothing has to boot for it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from host_tools.runners.buffers import bind
from host_tools.runners.optee import bare_metal
from host_tools.runners.optee.images import Board, Image
from host_tools.runners.optee.normal_world import Request
from host_tools.runners.replay import RunnerError
from host_tools.runners.secure_machine import DRAM_BASE
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace


def test_a_temporary_folder_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace and tensors have their place before they are written: a signal ended the process."""
    delivery = Delivery(sign_trace(small_trace(), ES256))

    def small(_: int, at: int, size: int) -> None:
        assert at == bare_metal.MAILBOX_BASE - DRAM_BASE
        if size > len(delivery.data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", small)
    image = Image(Path("none"), Board(0x0B000000, 132, 0xC0000000, 1 << 28, 0))
    request = Request(bare_metal.OpteeRequest(delivery, ES256.public), image, "v3d42", bind(delivery.trace, {}))
    with pytest.raises(RunnerError, match="bytes of the machine's memory, found: No space left on device"):
        bare_metal.invoke(request)
