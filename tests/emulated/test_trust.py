# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies: the firmware in Unicorn gives each named case the status that host and core give it."""

from __future__ import annotations

import pytest

from host_tools import runners
from signing.delivery import Delivery
from signing.trust_verdict import NO_ID
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_trust import ON_DEVICES
from tests.support.trust_samples import policy


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_named_case(name: str) -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    case = ON_DEVICES[name]
    device_id = case.where.device_id or NO_ID
    found = runners.run("unicorn", Delivery(case.make()), case.root, gpu="v3d42", device_id=device_id)
    assert found.report.name == case.status.name


def test_most_cases_are_of_one_firmware() -> None:
    assert sum(case.root == policy() for case in ON_DEVICES.values()) > 90
