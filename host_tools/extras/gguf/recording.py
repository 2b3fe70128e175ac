# SPDX-License-Identifier: BSD-2-Clause
"""A GGUF file's decoder, recorded, and compared with NumPy in replays at both ends of the positions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.model import Model, read_model
from host_tools.extras.gguf.plan import CHOSEN, GIVEN, LEFT, LOGITS, SETTINGS, plan
from host_tools.extras.gguf.reference import Reference
from host_tools.extras.gguf.words import NOTE, words_of
from host_tools.families.page_tables import DivergenceError
from host_tools.families.speed import speed_of
from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.model.job_names import NOTE as CALLS
from host_tools.passes.parameters import without_slots
from host_tools.passes.pipeline import build
from host_tools.record.checking import LEFT_OUT, UNCHECKED
from host_tools.record.compiled.layout import PlanError, laid_out
from host_tools.record.compiled.recording import record_plan
from host_tools.record.compiled.shaders import spirv
from host_tools.record.differences import relative_difference
from host_tools.record.preflight import NetworkError
from host_tools.record.tolerances import TOLERANCE
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.vgpu.binding import VgpuError
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

STEP = 256  # positions: each lane of a head's workgroup has four of them
MOST_POSITIONS = 2048  # scores of a head lie in a workgroup's shared memory; a V3D's driver gives 16 KiB
POSITION = "position"
# A text that begins in the middle is none that a decoder was trained for: SmolLM2's logits differ there by 1.2e-4.
EMPTY = 10.0  # how much more they may differ after positions without keys and values
Tensors = Mapping[str, NDArray[Any]]


def record_gguf(
    path: Path,
    *,
    positions: int,
    name: str,
    check: bool,
    logits: bool,
    tolerance: float | None,
    gpu: str,
    timeout: float,
    snapshot: str,
) -> Trace:
    """Record one token of a GGUF file's decoder. Token, position and caches are state of the trace.

    Args:
        path: the file.
        positions: tokens that a conversation can have: a multiple of STEP up to MOST_POSITIONS.
        check: build the recording and compare replays with NumPy.
        logits: keep the output LOGITS.
        tolerance: largest difference of the logits, relative to the largest; None: TOLERANCE.
        name, gpu, timeout, snapshot: as for `record_network`.

    Raises:
        GgufError, NetworkError, OSError: as `read_model`.
        NetworkError: there are more positions than the decoder was trained for, or it needs too much memory.
        RecordError: as `record_plan`; or what was recorded computes something else.
    """
    model = read_model(path)
    if positions % STEP or not 0 < positions <= min(MOST_POSITIONS, model.size.context):
        most = min(MOST_POSITIONS, model.size.context)
        raise NetworkError(f"--positions: expected a multiple of {STEP} up to {most}, found {positions}")
    tolerance = TOLERANCE if tolerance is None else tolerance
    try:
        with phase("laying out weights and kernels"):
            layout = laid_out(plan(model, positions, wide=speed_of(gpu).loads_vectors))
            shaders = spirv(layout.plan.kernels)
    except PlanError as error:
        raise NetworkError(str(error)) from error
    notes: dict[str, Any] = {
        "model": {"file_sha256": hashlib.sha256(model.data).hexdigest(), "converter": "gguf"},
        CALLS: [call.name for call in layout.plan.calls],
    }
    try:
        notes[NOTE] = words_of(model.head).note()
    except NetworkError as error:
        LOG.warning("'gramophone chat' will not take the trace: %s", error)
    token = model.size.tokens // 2
    # The guest's results would be caches of many megabytes, and replays have what matters of them.
    how: dict[str, Any] = {"name": name, "gpu": gpu, "timeout": timeout, "snapshot": snapshot, "notes": notes}
    trace, _ = record_plan(layout, shaders, _inputs(token), results=False, **how)
    if check:
        _check(trace, model, positions, tolerance)
    else:
        trace.notes[UNCHECKED] = LEFT_OUT
    return trace if logits else without_logits(trace)


def without_logits(trace: Trace) -> Trace:
    """The recording without that output, and without what copies it."""
    kept = [number for number, slot in enumerate(trace.slots) if slot.name != LOGITS]
    actions = without_slots(trace.actions, len(trace.slots), kept)
    return trace.with_(actions=actions, slots=[trace.slots[number] for number in kept])


def _inputs(token: int) -> dict[str, NDArray[Any]]:
    return {GIVEN: np.array([token], np.int32), **{name: np.array([value]) for name, value in SETTINGS.items()}}


def _compare(found: Tensors, expected: NDArray[np.float32], position: int, tolerance: float) -> None:
    """RecordError: logits differ from NumPy's, or the token that was chosen is not the likeliest."""
    where = f"in a replay at position {position}"
    logits = np.reshape(found[LOGITS], expected.shape)
    difference = relative_difference(logits, expected)
    if not difference <= tolerance:
        raise RecordError(
            f"logits differ {where} from those that NumPy computes with float32 by {difference:.2e} of the "
            f"largest, tolerance {tolerance:.0e}"
        )
    chosen = int(np.reshape(found[CHOSEN], -1)[0])
    if chosen != int(logits.argmax()):
        raise RecordError(f"the token chosen {where} is {chosen}, the likeliest {int(logits.argmax())}")


def _check(trace: Trace, model: Model, positions: int, tolerance: float) -> None:
    """Build a recording and replay it from the first position, from the middle, and to the end.

    Raises:
        RecordError: it cannot be built or replayed, or a replay computes something else.
    """
    with phase("checking replays at other positions"):
        try:
            # It was made a moment ago, and waits decide nothing here.
            built = build(trace, trust_note=True, timeout_margin=None, open_slots=[POSITION])
            with interpreter(built) as run:
                for start in (0, positions // 2, positions - 2):
                    place = np.array([start], np.int32)
                    _two_tokens(run, model, place, tolerance * (EMPTY if start else 1))
                left = run.run({POSITION: place, **_inputs(0)})
                if (int(left[CHOSEN][0]), int(left[LEFT][0])) != (-1, 0):
                    raise RecordError(f"a replay after the last position chose token {int(left[CHOSEN][0])}")
        except RecordError:
            raise
        except (DivergenceError, VgpuError, GramophoneError) as error:
            raise RecordError(f"what was recorded cannot be replayed: {error}") from error


def _two_tokens(run: Interpreter, model: Model, place: NDArray[np.int32], tolerance: float) -> None:
    """Two replays from a position on; before it, caches are zero. State lasts while `place` is the same array."""
    reference = Reference(model, int(place[0]))
    for token in np.random.default_rng(reference.position).integers(0, model.size.tokens, 2).tolist():
        left = run.run({POSITION: place, **_inputs(token)})
        _compare(left, reference(token), reference.position - 1, tolerance)
