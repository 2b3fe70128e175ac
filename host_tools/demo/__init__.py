# SPDX-License-Identifier: BSD-2-Clause
"""The demo: a LeNet trained on real handwritten digits, the digits that it is shown, and what takes both through
the secure world of QEMU (`make demo`, `make optee`, `make record-demo`).

Not in here: the training, and networks for tests and benches (`docs/examples`).

Read first: __main__.py
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "lenet"
PARAM, WEIGHTS = FOLDER / "lenet.param", FOLDER / "lenet.bin"
RAW = FOLDER / "lenet.raw.gtr"  # the committed recording; `make record-demo` makes it again
