# SPDX-License-Identifier: BSD-2-Clause
"""Examples that no installed package needs: how the demo's network was trained, what described networks must give
by NumPy, and networks of published shape with random weights. `make demo-train`, `make demo-mali`, tests and
benches run them. lenet.ipynb is the notebook of docs/PYTHON.md; a test runs it. wake_word.py and vad.c listen to
WAV files, faces.py draws boxes on a picture (docs/YOUR-MODEL.md).

Not in here: the demo itself, with its network and digits (`host_tools/demo`). The packages import none of these.

Read first: train.py
"""
