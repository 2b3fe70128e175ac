# SPDX-License-Identifier: BSD-2-Clause
"""The committed recordings were made of what the guest would be given now.

Whether they come out the same bit for bit, tests/qemu/test_networks.py sees only with the versions of packages and
of QEMU that they were made with.
"""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.demo import PARAM, WEIGHTS
from host_tools.demo.record import SHAPES
from host_tools.machine.boot import job_digest
from host_tools.record.ncnn.job import ncnn_job

# SHA-256 of the guest's own files, command and first programs; recorded anew by `make record-demo` and
# `python -m tests.support.networks GPU`.
GIVEN = {
    "v3d42": "8e3d207a6aeffaae8b63f6474ad88b686a25accac46699837860f7a67f780498",
    "mali_g71": "408c449ade1784be731f44aa0c49a17c4f41a420207b83f5b6cd86754777b5e7",
    "v3d71": "8e3d207a6aeffaae8b63f6474ad88b686a25accac46699837860f7a67f780498",
}


@pytest.mark.parametrize("gpu", GIVEN)
def test_the_guest_is_given_what_it_was_at_the_recording(gpu: str) -> None:
    zeros = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    job = ncnn_job(PARAM.read_bytes(), WEIGHTS.read_bytes(), zeros, gpu=gpu)
    assert job_digest(job) == GIVEN[gpu], "record again, then change the digest"
