# SPDX-License-Identifier: BSD-2-Clause
"""The demo: a LeNet trained on real handwritten digits, and the digits it is shown."""

from pathlib import Path

FOLDER = Path(__file__).parent / "lenet"
PARAM, WEIGHTS = FOLDER / "lenet.param", FOLDER / "lenet.bin"
RAW = FOLDER / "lenet.raw.gtr"  # the committed recording; `make record-demo` makes it again
