# SPDX-License-Identifier: BSD-2-Clause
"""What operators leave of a caller's data for the next one, and what `lint --dynamic` says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.lint import lint
from host_tools.model.interpreter import interpreter
from tests.support import boxes_left
from tests.support.replayer_samples import virtual
from trace_format.errors import ActionError
from trace_format.operators import Operator
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Array = NDArray[Any]


def by_core(trace: Trace, callers: list[dict[str, Array]]) -> dict[str, Array]:
    """What the last of several callers gets of the C core."""
    with virtual(trace) as device:
        for given in callers:
            found = {
                slot.name: np.zeros(slot.shape, slot.numpy_dtype)
                for slot in trace.slots
                if slot.kind == SlotKind.OUTPUT
            }
            for name, array in {**given, **found}.items():
                device.bind(name, array)
            device.replayer.run()
    return found


def by_host(trace: Trace, callers: list[dict[str, Array]]) -> dict[str, Array]:
    """The same, of the interpreter."""
    with interpreter(trace) as run:
        for given in callers:
            found = {name: array.copy() for name, array in run.run(given).items()}
    return found


@pytest.mark.parametrize("operator", boxes_left.FINDERS)
def test_working_memory_is_no_callers(operator: Operator) -> None:
    with pytest.raises(ActionError, match=r"operand work .* is written: expected internal, found output"):
        boxes_left.trace_of(operator, beside=False).check()


@pytest.mark.parametrize("operator", boxes_left.FINDERS)
def test_the_next_caller_gets_no_boxes_of_the_one_before(operator: Operator) -> None:
    trace = boxes_left.trace_of(operator, beside=True)
    shown, nothing = ({"in": boxes_left.picture(operator, shows=shows)} for shows in (True, False))
    for replayed in (by_core, by_host):
        assert replayed(trace, [shown])["count"] == 2
        assert not replayed(trace, [shown, nothing])["more"].any()
    assert {found.rule.id for found in [*lint(trace), *lint_dynamic(trace)[0]]} == {"GR703", "GR704"}
