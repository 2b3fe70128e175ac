# SPDX-License-Identifier: BSD-2-Clause
"""What was recorded is believed once it has been built and replayed with data that no slot was found with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.families.page_tables import DivergenceError
from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference, worst_element
from host_tools.support.progress import phase
from host_tools.vgpu.binding import VgpuError
from trace_format.errors import GramophoneError
from trace_format.slots import Slot
from trace_format.trace import Trace

Tensors = Mapping[str, NDArray[np.float32]]
NOT_IN_NAMES = re.compile(r"[^\w.-]|^\.")  # of files
UNCHECKED = "check"  # in the notes of a recording that was written without the check
LEFT_OUT = "left out"


def save_case(folder: Path, case: tuple[Tensors, Tensors]) -> None:
    """Write what a replay is checked with, as .npy files named after the slots: folders `inputs` and `outputs`.

    Raises:
        OSError: a file cannot be written.
    """
    for kind, tensors in zip(("inputs", "outputs"), case, strict=True):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, tensor in tensors.items():
            np.save(folder / kind / f"{NOT_IN_NAMES.sub('_', name)}.npy", tensor)


def check_replay(
    trace: Trace,
    cases: Sequence[tuple[Tensors, Tensors]],
    tolerance: float,
    whose: str,
    expected_to: Path | None = None,
) -> list[dict[str, NDArray[Any]]]:
    """Build a recording, replay it through its slots on the virtual GPU, and compare.

    Args:
        trace: a raw recording with its slots.
        cases: inputs, not those of the recording, and what some or all outputs are to be.
        tolerance: as `relative_difference`.
        whose: who says so, for the error's text.
        expected_to: a folder for the first case (`save_case`).

    Returns:
        All outputs for each input, of the shape that users know.

    Raises:
        RecordError: it cannot be built or replayed, or an output differs; names the slot, the element, where in
            GPU memory it is, and by how much it differs.
    """
    if expected_to is not None:
        save_case(expected_to, cases[0])
    with phase("checking a replay with another input"):
        try:
            # It was made a moment ago, and waits decide nothing here.
            built = build(trace, trust_note=True, timeout_margin=None)
            with interpreter(built) as run:
                return [_replayed(trace, run, *case, tolerance, whose) for case in cases]
        except RecordError:
            raise
        except (DivergenceError, VgpuError, GramophoneError) as error:
            raise RecordError(f"what was recorded cannot be replayed: {error}") from error


def _replayed(
    trace: Trace, run: Interpreter, inputs: Tensors, expected: Tensors, tolerance: float, whose: str
) -> dict[str, NDArray[Any]]:
    """The outputs of one replay, compared."""
    left = run.run({name: tensor.reshape(trace.slot(name).shape) for name, tensor in inputs.items()})
    found = {name: tensor.reshape(trace.slot(name).tensor_shape) for name, tensor in left.items()}
    for name, tensor in expected.items():
        difference = relative_difference(found[name].reshape(tensor.shape), tensor)
        if not difference <= tolerance:
            raise RecordError(_differs(trace.slot(name), found[name], tensor, difference, whose, tolerance))
    return found


def _differs(
    slot: Slot,
    found: NDArray[Any],
    expected: NDArray[np.float32],
    difference: float,
    whose: str,
    tolerance: float,
) -> str:
    element = worst_element(found.reshape(expected.shape), expected)
    number = int(np.ravel_multi_index(element, expected.shape))
    address = int(slot.element_addresses().reshape(-1)[number])
    return (
        f"output {slot.name}: a replay with another input differs from {whose} by {difference:.2e} of its largest "
        f"value, tolerance {tolerance:.0e}: element {list(element)}, at GPU address {address:#x}, is "
        f"{found.reshape(-1)[number]:.7g} and should be {expected[element]:.7g}; nothing was written, for the "
        f"recording computes something else"
    )
