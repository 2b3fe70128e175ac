# SPDX-License-Identifier: BSD-2-Clause
"""A Mali G71 driven by the pseudo-TA: three interrupt lines, job chains, a reset that must be waited for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host_tools import runners
from host_tools.runners import libraries
from signing.delivery import Delivery
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support.described_networks import HELD_OUT, check_digits, check_held_out
from tests.support.firmware_samples import small_mali, values
from tests.support.sampling import SomeOf
from tests.support.signing_samples import ES256


@pytest.mark.parametrize(
    ("trouble", "share_gpu"),
    [
        ({}, False),
        pytest.param({}, True, marks=pytest.mark.exhaustive),
        pytest.param({"fault": "1"}, False, marks=pytest.mark.exhaustive),
        ({"fault": "1"}, True),
    ],
)
def test_it_replays_and_reports_as_the_host_does(
    trouble: dict[str, str], share_gpu: bool, pta: Path, tmp_path: Path
) -> None:
    """`pta` is requested so that without OP-TEE the tests are skipped with its reason."""
    folder = generate_sources(
        Options("mali_g71", platform_of("optee"), s.KEY, libraries.source(), any_client=True, share_gpu=share_gpu),
        tmp_path / "pta",
    )
    sample, stats = small_mali(tmp_path), tmp_path / "stats.json"
    data, inputs = s.signed(sample), values(sample, 1)
    here = runners.run("vgpu", Delivery(data), s.KEY, inputs, fault_job=1 if trouble else 0)
    there = runners.run(
        "optee",
        Delivery(data),
        s.KEY,
        inputs,
        firmware=folder,
        plugin_args={"stats": str(stats)} | trouble,
    )
    assert there.ok, there.error
    assert there.retries == (1 if trouble else 0)
    assert (here.jobs, here.actions, here.retries) == (there.jobs, there.actions, there.retries)
    assert here.outputs.keys() == there.outputs.keys()
    for name, array in here.outputs.items():
        assert there.outputs[name].tobytes() == array.tobytes()
    counts = json.loads(stats.read_text())
    assert counts["handovers"] == (2 if share_gpu else 0)
    assert counts["normal_accesses"] == 0
    assert counts["carveout_bytes_left"] == 0


@pytest.mark.exhaustive  # on other runners tests/recordings/test_mali_runners.py does so
def test_it_classifies_as_numpy_does(
    pta: Path, recordings: Path, mnist_weights: bytes, tmp_path: Path, some_of: SomeOf
) -> None:
    """GPUReplay's recording mnist with trained weights: what Arm's shaders compute, from the secure world."""
    folder = generate_sources(
        Options("mali_g71", platform_of("optee"), ES256.public, libraries.source(), any_client=True),
        tmp_path / "pta",
    )
    check_digits(recordings, mnist_weights, "optee", ES256, firmware=folder)
    check_held_out(recordings, mnist_weights, "optee", ES256, some_of(range(HELD_OUT), 4), firmware=folder)
