# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's own tests on a virtual GPU: several in one boot, where one that fails ends no other.

With `--exhaustive`. With `make test`, tests/unit/record/compiled/test_node_tests.py runs a sample of them on
lavapipe, and test_self_test.py and test_compiled.py run compiled networks in guests.
"""

from __future__ import annotations

import dataclasses

import pytest

from host_tools.machine.root import RecordRoot
from tests.support import node_cases
from tests.support.node_cases import Prepared, Why
from tests.support.node_guest import in_guest

NAMES = ("test_abs", "test_clip_default_int8_max", "test_sinh_example")


pytestmark = pytest.mark.usefixtures("without_sandboxes")


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", ["v3d42", "v3d71", "mali_g52r1"])
def test_one_that_fails_ends_no_other(gpu: str, root: RecordRoot) -> None:
    made = [node_cases.prepared(case) for case in node_cases.collect()[0] if case.name in NAMES]
    first, second, third = (case for case in made if isinstance(case, Prepared))
    no_code = dataclasses.replace(second, shaders=[b"\0" * len(second.shaders[0])])
    found = in_guest([first, no_code, third], gpu)
    assert found[first.case.name] == found[third.case.name] == (Why.PASSED, "")
    assert found[second.case.name][0] is Why.PLAN
