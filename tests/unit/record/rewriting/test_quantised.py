# SPDX-License-Identifier: BSD-2-Clause
"""Networks that ONNX Runtime's quantizer has rounded: compiled, stretch by stretch, they compute what it does."""

from __future__ import annotations

import pytest

from tests.support import random_stretches
from tests.support.sampling import SomeOf

pytestmark = pytest.mark.usefixtures("without_sandboxes")
COUNT = 60


def test_random_networks(some_of: SomeOf) -> None:
    """One of each way to quantise, with operators of ONNX Runtime's own among them."""
    wrong = {
        seed: said
        for seed, said in random_stretches.outcomes(
            "quantised", some_of(range(COUNT), 3, lambda all_, most: all_[3 : 3 + most])
        )
        if said != random_stretches.RIGHT and not said.startswith(random_stretches.UNDRAWN)
    }
    assert wrong == {}
