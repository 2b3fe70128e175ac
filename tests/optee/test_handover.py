# SPDX-License-Identifier: BSD-2-Clause
"""A GPU that the normal world has between sessions, without a driver (handover.c)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.runners import libraries
from host_tools.runners.optee import images
from signing.sign import FileSigner
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.optee.test_client import DATA_ABORT, EXTERNAL_ABORT
from tests.support.optee_size import added_bytes
from tests.support.programs import run_program

BETWEEN, IN_SESSION, FIREWALL, CARVEOUT, BUSY = 0, 1, 2, 3, 4
HAVE_CURRENT = 2  # CSD_STATUS
IDENT1 = 0x000E1124  # of the virtual V3D
ANSWER = np.dtype(
    [*((name, "<u4") for name in ("result", "origin", "before", "after")), ("masks", "<u4", 3), ("job", "<u4", 2)]
)
JOBS = 14


@pytest.fixture(scope="module")
def image(pta: Path, signer: FileSigner, tmp_path_factory: pytest.TempPathFactory) -> images.Image:
    """`pta` is requested so that without OP-TEE the tests are skipped with its reason."""
    folder = tmp_path_factory.mktemp("shared") / "pta"
    generate_sources(
        Options("v3d42", platform_of("optee"), signer.public, libraries.source(), any_client=True, share_gpu=True),
        folder,
    )
    assert added_bytes(folder) <= 18 * 1024
    return images.image_of(folder, Path(__file__).with_name("handover.c"))


def test_the_gpu_comes_back_reset(image: images.Image, signed: bytes) -> None:
    data, counts = run_program(image, signed, BETWEEN)
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}"
    assert (answer["before"], answer["after"]) == (IDENT1, IDENT1)
    reset, before, after = answer["masks"]
    assert before != reset
    assert after == reset
    assert counts["jobs"] == JOBS
    assert counts["handovers"] == 2
    assert (counts["refused_accesses"], counts["refused_memory"]) == (0, 0)
    assert counts["carveout_bytes_left"] == 0


def test_a_job_that_the_normal_world_left_running_does_not_outlive_the_reset(
    image: images.Image, signed: bytes
) -> None:
    data, counts = run_program(image, signed, BUSY, plugin_args={"hang": "1"})
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}"
    assert list(answer["job"] & HAVE_CURRENT) == [HAVE_CURRENT, 0]
    assert counts["jobs"] == JOBS
    assert counts["carveout_bytes_left"] == 0


@pytest.mark.parametrize(
    ("mode", "refused", "jobs", "handovers"),
    [
        (IN_SESSION, "refused_accesses", JOBS, 1),
        (FIREWALL, "refused_accesses", 0, 0),
        (CARVEOUT, "refused_memory", 0, 0),
    ],
)
def test_an_external_abort(
    image: images.Image, signed: bytes, mode: int, refused: str, jobs: int, handovers: int
) -> None:
    data, counts = run_program(image, signed, mode)
    syndrome = int(np.frombuffer(data, ANSWER, 1)[0]["result"])
    assert (syndrome >> 26, syndrome & 0x3F) == (DATA_ABORT, EXTERNAL_ABORT)
    assert counts[refused] == 1
    assert (counts["jobs"], counts["handovers"]) == (jobs, handovers)
