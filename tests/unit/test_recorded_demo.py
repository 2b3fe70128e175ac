# SPDX-License-Identifier: BSD-2-Clause
"""The committed recordings were made of what the guest would be given now.

Whether they come out the same bit for bit, tests/qemu/test_networks.py sees only with the versions of packages and
of QEMU that they were made with.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from host_tools.demo import PARAM, WEIGHTS
from host_tools.demo.record import SHAPES
from host_tools.machine.boot import job_archive
from host_tools.record.ncnn_job import ncnn_job

# SHA-256 of the guest's own files, command and init; recorded anew by `make record-demo` and
# `python -m tests.support.networks GPU`.
GIVEN = {
    "v3d42": "323d8a97db24d1abed1d09845f82efc0c45aa728f1e64f9367e28c06000a929d",
    "mali_g71": "5ce0eb954e67886f0598dd59ec3c814d3d33e2077232582fd77df843958030ca",
    "v3d71": "323d8a97db24d1abed1d09845f82efc0c45aa728f1e64f9367e28c06000a929d",
}


@pytest.mark.parametrize("gpu", GIVEN)
def test_the_guest_is_given_what_it_was_at_the_recording(gpu: str) -> None:
    zeros = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    job = ncnn_job(PARAM.read_bytes(), WEIGHTS.read_bytes(), zeros, gpu=gpu)
    assert hashlib.sha256(job_archive(job)).hexdigest() == GIVEN[gpu], "record again, then change the digest"
