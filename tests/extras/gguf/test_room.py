# SPDX-License-Identifier: BSD-2-Clause
"""Memory that a decoder needs: what its head says is what its plan takes, and too much is refused at once."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from host_tools.extras.gguf import room
from host_tools.extras.gguf.file import Head, Tensor
from host_tools.extras.gguf.model import ARCHITECTURES, Model, Size, read_model
from host_tools.extras.gguf.plan import plan
from host_tools.extras.gguf.recording import record_gguf
from host_tools.extras.gguf.types import TYPES
from host_tools.record.compiled.plan import FIXED, Kind
from host_tools.record.preflight import NetworkError
from tests.support.gguf_models import Decoder

HOW: dict[str, Any] = {"positions": 256, "name": "n", "check": False, "logits": False, "tolerance": None}
HOW |= {"gpu": "v3d42", "timeout": 1.0, "snapshot": ""}


@pytest.mark.parametrize("kind", ["F16", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_what_the_head_says_is_what_the_plan_takes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the angles of RoPE, and the norms' gains, which have no other place than their product's."""
    model = read_model(Decoder(kind, layers=1, tokens=64, width=256, hidden=256).write(tmp_path / "m.gguf"))
    made = plan(model, 256)
    taken = sum(buffer.size for buffer in made.buffers if buffer.kind in (*FIXED, Kind.STATE))
    taken -= 256 * model.size.head * 4  # the angles
    monkeypatch.setattr(room, "ROOM", taken)
    room.check_room(model, 256)
    monkeypatch.setattr(room, "ROOM", taken - 4096)
    with pytest.raises(NetworkError):
        room.check_room(model, 256)


def test_a_decoder_that_is_too_large_boots_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is laid out, either: the sentence comes first."""
    path = Decoder().write(tmp_path / "m.gguf")
    monkeypatch.setattr(room, "ROOM", 100_000)
    monkeypatch.setattr("host_tools.extras.gguf.recording.plan", None)
    with pytest.raises(NetworkError) as error:
        record_gguf(path, **HOW)
    start = "the recording machine's memory for weights and 256 positions: expected at most 100000 bytes, found "
    assert str(error.value).startswith(start)


QWEN2_05B = Size(24, 896, 4864, 14, 2, 64, 151936, 32768, 1e6, 1e-6)
TINYLLAMA = Size(22, 2048, 5632, 32, 4, 64, 32000, 2048, 1e4, 1e-5)
LLAMA32_3B = Size(28, 3072, 8192, 24, 8, 128, 128256, 131072, 5e5, 1e-5)


@pytest.mark.parametrize(
    ("size", "kind", "positions", "needed"),
    [
        (QWEN2_05B, "Q4_0", 256, 0),
        (QWEN2_05B, "Q8_0", 2048, 0),
        (QWEN2_05B, "F16", 256, 994_213_888),
        (TINYLLAMA, "Q4_K", 256, 0),
        (TINYLLAMA, "Q8_0", 256, 1_175_257_088),
        (LLAMA32_3B, "Q4_0", 256, 2_066_579_456),
    ],
)
def test_decoders_that_people_use(size: Size, kind: str, positions: int, needed: int) -> None:
    """By their sizes alone: the matrices' figures; 0: there is room."""
    width, own, shared = size.width, size.heads * size.head, size.groups * size.head
    shapes = [(own, width), (shared, width), (shared, width), (width, own), *[(size.hidden, width)] * 3]
    tensors = {f"{at}": _tensor(kind, shape) for at, shape in enumerate(shapes * size.layers)}
    tensors |= {"table": _tensor(kind, (size.tokens, width))}
    model = Model(Head({}, tensors, 0), b"", size, ARCHITECTURES["llama"])
    if not needed:
        room.check_room(model, positions)
        return
    with pytest.raises(NetworkError) as error:
        room.check_room(model, positions)
    assert str(error.value).endswith(f"found {needed}")


def _tensor(kind: str, shape: tuple[int, ...]) -> Tensor:
    block, size = TYPES[kind]
    return replace(Tensor("", kind, shape, 0, 0), size=math.prod(shape) // block * size)
