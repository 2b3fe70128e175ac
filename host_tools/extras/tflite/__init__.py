# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite files (.tflite) as ONNX networks, without TensorFlow. For model owners whose networks come from
MediaPipe, microWakeWord and the like. `file.py` reads the flatbuffer, `convert.py` and the tables
beside it translate operators, and `judge.py` compares the translation with LiteRT's reference kernels.

Not in here: who then records the ONNX network (`record.choosing`), and how state outlasts a replay
(`passes/state.py`).

Read first: convert.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "tflite",
    "Record networks of TensorFlow Lite.",
    {
        "record tflite": LazyCommand(
            "host_tools.extras.tflite.command:record_tflite", "Record a TensorFlow Lite network."
        )
    },
    networks={".tflite": "host_tools.extras.tflite.choose:choose_tflite"},
)
