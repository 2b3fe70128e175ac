# SPDX-License-Identifier: BSD-2-Clause
"""What operators leave of a caller's data for the next one, and what `lint --dynamic` says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.follower import EARLIER, Follower, Names
from host_tools.audit.lint import lint
from host_tools.model.interpreter import interpreter
from tests.support import boxes_left
from tests.support.flow_traces import given as given_to
from tests.support.flow_traces import traces
from tests.support.replayer_samples import Virtual, virtual
from trace_format.errors import ActionError
from trace_format.operators import Operator
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Array = NDArray[Any]


def replay(device: Virtual, data: dict[str, Array]) -> dict[str, Array]:
    """What one caller gets for what they give; inputs that they leave out are bound no longer."""
    slots = device.trace.slots
    found = {slot.name: np.zeros(slot.shape, slot.numpy_dtype) for slot in slots if slot.kind == SlotKind.OUTPUT}
    for number, slot in enumerate(slots):
        if slot.kind in (SlotKind.INPUT, SlotKind.OUTPUT):
            device.replayer.bind(number, {**data, **found}.get(slot.name))
    device.replayer.run()
    return found


def by_core(trace: Trace, callers: list[dict[str, Array]]) -> dict[str, Array]:
    """What the last of several callers gets of the C core."""
    with virtual(trace) as device:
        for data in callers:
            found = replay(device, data)
    return found


def by_host(trace: Trace, callers: list[dict[str, Array]]) -> dict[str, Array]:
    """The same, of the interpreter."""
    with interpreter(trace) as run:
        for data in callers:
            found = {name: array.copy() for name, array in run.run(data).items()}
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


def left_by_core(trace: Trace, callers: list[dict[str, Array]]) -> dict[str, NDArray[np.uint8]]:
    """What the last caller gets, and by "" what is in memory then, in bytes."""
    with virtual(trace) as device:
        for data in callers:
            found = replay(device, data)
        memory = np.frombuffer(device.memory, np.uint8)[: trace.carveout_bytes].copy()
    return {"": memory, **{name: array.reshape(-1).view(np.uint8) for name, array in found.items()}}


def labels_of(trace: Trace, callers: list[dict[str, Array]]) -> tuple[Names, dict[str, NDArray[np.uint32]]]:
    """The same of the follower: labels."""
    run = Follower(trace)
    try:
        for number, data in enumerate(callers):
            if number:
                run.next_replay()
            run.run(data)
        copied = {name: copies[-1].labels for name, copies in run.copied.items()}
        return run.names, {"": run.labels[: trace.carveout_bytes].copy(), **copied}
    finally:
        run.close()


@settings(max_examples=60, deadline=None)
@given(traces(), st.integers(0, 2**32 - 1), st.booleans())
def test_what_another_caller_changes_has_a_label(trace: Trace, seed: int, leaves_out: bool) -> None:
    """Memory and results of the second caller, by the C core: with other data of the first one, with other own."""
    trace.check()
    first, second = given_to(trace, seed), given_to(trace, seed + 1)
    if leaves_out:
        second = {name: array for name, array in second.items() if not trace.slot(name).bound}
    names, labels = labels_of(trace, [first, second])
    before = left_by_core(trace, [first, second])
    others = [(EARLIER, [given_to(trace, seed + more), second]) for more in (2, 3)]
    for name in second:
        changed = given_to(trace, seed + 4)[name]
        others.append((names.label(name), [first, {**second, name: changed}]))
    for label, callers in others:
        for name, after in left_by_core(trace, callers).items():
            differs = after != before[name]
            assert not (differs & (labels[name] & label == 0)).any(), (name or "memory", label)
