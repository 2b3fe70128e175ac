# SPDX-License-Identifier: BSD-2-Clause
"""Random small networks take the whole road: recorded, built, replayed, never wrong once `record` has said yes.

Those that a GPU's model or ncnn refuses by name do not count; most are right, or nothing is shown.

Each takes half a minute and more, and runs with `--exhaustive`: with one network, test_networks.py takes the same
road with `make test`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from host_tools import runners
from host_tools.support.gpu_folders import DEFAULT_GPU
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support.random_networks import Outcome, Replay, Tensors, on_virtual_gpu, take_the_road
from trace_format.trace import Trace

SIDE_BY_SIDE, MORE, ALONE = range(6), range(6, 18), range(18, 20)
OTHERS = ("v3d71", "mali_g71", "mali_g72", "mali_g52r1")
GROUP = 50


def in_the_secure_world(trace: Trace, inputs: Tensors) -> Tensors:
    """The outputs of real firmware in QEMU, the second time in a row."""
    signer = FileSigner(generate(Algorithm.ES256))
    result = runners.run("qemu", Delivery(sign_trace(trace.build(), signer)), signer.public, inputs, repeat=2)
    assert result.ok, result.error
    return dict(result.outputs)


def check(outcomes: Iterable[Outcome], least: float = 1.0) -> None:
    """None is wrong, and so large a part was not refused."""
    found = list(outcomes)
    assert [outcome for outcome in found if not outcome.good] == []
    right = [outcome for outcome in found if not outcome.refused]
    assert len(right) >= least * len(found), [outcome.said for outcome in found if outcome.refused]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("seeds", "replay"),
    [
        (SIDE_BY_SIDE, in_the_secure_world),
        (MORE, in_the_secure_world),
        *(([seed], on_virtual_gpu) for seed in ALONE),
    ],
    ids=["side by side", "more of them", *map(str, ALONE)],
)
def test_networks(seeds: Sequence[int], replay: Replay) -> None:
    check(take_the_road(seeds, DEFAULT_GPU, replay))


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, 500, GROUP))
def test_500_networks(first: int) -> None:
    check(take_the_road(range(first, first + GROUP), DEFAULT_GPU))


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", OTHERS)
@pytest.mark.parametrize("first", range(0, 100, GROUP))
def test_100_networks_on_other_gpus(gpu: str, first: int) -> None:
    check(take_the_road(range(first, first + GROUP), gpu), least=0.0 if gpu.startswith("mali") else 1.0)
