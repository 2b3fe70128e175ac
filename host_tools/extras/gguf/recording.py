# SPDX-License-Identifier: BSD-2-Clause
"""A GGUF file's decoder, recorded, and compared with NumPy in replays at both ends of the positions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.conversation import CHOSEN, GIVEN, LEFT
from host_tools.extras.gguf.file_words import words_of
from host_tools.extras.gguf.model import Model, read_model
from host_tools.extras.gguf.plan import LOGITS, SETTINGS, plan
from host_tools.extras.gguf.reference import Reference
from host_tools.extras.gguf.room import check_room
from host_tools.extras.gguf.words import NOTE, Words
from host_tools.families.page_tables import DivergenceError
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
    system: str | None = None,
) -> Trace:
    """Record one token of a GGUF file's decoder. Token, position and caches are state of the trace.

    The state begins after what the model is told before the first question, so that no replay is needed for that.

    Args:
        path: the file.
        positions: tokens that a conversation can have: a multiple of STEP up to MOST_POSITIONS.
        check: build the recording and compare replays with NumPy.
        logits: keep the output LOGITS.
        tolerance: largest difference of the logits, relative to the largest; None: TOLERANCE.
        system: what the model is told before the first question; "": nothing, None: what the file's template has.
        name, gpu, timeout, snapshot: as for `record_network`.

    Raises:
        GgufError, NetworkError, OSError: as `read_model`.
        NetworkError: there are more positions than the decoder was trained for, or it needs too much memory; or
            `system` is longer than they are, or the file's words are not supported, which it needs.
        RecordError: as `record_plan`; or what was recorded computes something else.
    """
    model = read_model(path)
    if positions % STEP or not 0 < positions <= min(MOST_POSITIONS, model.size.context):
        most = min(MOST_POSITIONS, model.size.context)
        raise NetworkError(f"--positions: expected a multiple of {STEP} up to {most}, found {positions}")
    check_room(model, positions)
    tolerance = TOLERANCE if tolerance is None else tolerance
    words = _words(model, system)
    before = _before(model, words, positions)
    try:
        with phase("laying out weights and kernels"):
            layout = laid_out(plan(model, positions, gpu=gpu, before=before))
            shaders = spirv(layout.plan.kernels)
    except PlanError as error:
        raise NetworkError(str(error)) from error
    notes: dict[str, Any] = {
        "model": {"file_sha256": hashlib.sha256(model.data).hexdigest(), "converter": "gguf"},
        CALLS: [call.name for call in layout.plan.calls],
    }
    if words is not None:
        notes[NOTE] = words.note()
    token = model.size.tokens // 2
    # The guest's results would be caches of many megabytes, and replays have what matters of them.
    how: dict[str, Any] = {"name": name, "gpu": gpu, "timeout": timeout, "snapshot": snapshot, "notes": notes}
    trace, _ = record_plan(layout, shaders, _inputs(token), results=False, **how)
    if check:
        _check(trace, model, positions, before, tolerance)
    else:
        trace.notes[UNCHECKED] = LEFT_OUT
    return trace if logits else without_logits(trace)


def _words(model: Model, system: str | None) -> Words | None:
    """The file's words, with something else that the model is told first; None: not supported."""
    try:
        words = words_of(model.head)
    except NetworkError as error:
        if system:
            raise
        LOG.warning("'gramophone chat' will not take the trace: %s", error)
        return None
    return words if system is None else replace(words, system=system)


def _before(model: Model, words: Words | None, positions: int) -> Reference:
    """The decoder after what it is told before the first question."""
    before, told = Reference(model), words.told() if words is not None else []
    if len(told) > positions // 2:
        raise NetworkError(
            f"--system: expected at most {positions // 2} tokens, half of --positions, found {len(told)}"
        )
    if told:
        with phase("computing the state after the system message"):
            before(*told)
    return before


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


def _check(trace: Trace, model: Model, positions: int, before: Reference, tolerance: float) -> None:
    """Build a recording and replay it from the first position, from the middle, and to the end.

    Raises:
        RecordError: it cannot be built or replayed, or a replay computes something else.
    """
    with phase("checking replays at other positions"):
        try:
            # It was made a moment ago, and waits decide nothing here.
            built = build(trace, trust_note=True, timeout_margin=None, open_slots=[POSITION])
            with interpreter(built) as run:
                for start in (before.position, positions // 2, positions - 2):
                    place = np.array([start], np.int32)
                    reference = Reference(model, start, before)
                    _two_tokens(run, reference, place, tolerance * (1 if start == before.position else EMPTY))
                left = run.run({POSITION: place, **_inputs(0)})
                if (int(left[CHOSEN][0]), int(left[LEFT][0])) != (-1, 0):
                    raise RecordError(f"a replay after the last position chose token {int(left[CHOSEN][0])}")
        except RecordError:
            raise
        except (DivergenceError, VgpuError, GramophoneError) as error:
            raise RecordError(f"what was recorded cannot be replayed: {error}") from error


def _two_tokens(run: Interpreter, reference: Reference, place: NDArray[np.int32], tolerance: float) -> None:
    """Two replays from a position on. State lasts while `place` is the same array."""
    for token in np.random.default_rng(reference.position).integers(0, reference.model.size.tokens, 2).tolist():
        left = run.run({POSITION: place, **_inputs(token)})
        _compare(left, reference(token), reference.position - 1, tolerance)
