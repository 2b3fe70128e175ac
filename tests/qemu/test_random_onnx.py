# SPDX-License-Identifier: BSD-2-Clause
"""Random small ONNX networks take the whole road by tinygrad, and are never wrong once `record` has said yes.

Half a minute for ten, with `--exhaustive`. With `make test`, test_compiled.py and test_self_test.py take that
road.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from host_tools.machine.root import RecordRoot
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.qemu.test_random_networks import check, in_the_secure_world
from tests.support.random_networks import Replay, on_virtual_gpu
from tests.support.random_onnx import GROUP, take_the_road


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("seeds", "replay"),
    [(range(GROUP), in_the_secure_world), (range(GROUP, 2 * GROUP), on_virtual_gpu)],
    ids=["in the secure world", "in Python"],
)
def test_networks(seeds: Sequence[int], replay: Replay, root: RecordRoot) -> None:
    check(take_the_road(seeds, DEFAULT_GPU, replay))


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(2 * GROUP, 200, GROUP))
@pytest.mark.parametrize("gpu", [DEFAULT_GPU, "v3d71"])
def test_200_networks(first: int, gpu: str, root: RecordRoot) -> None:
    check(take_the_road(range(first, first + GROUP), gpu))
