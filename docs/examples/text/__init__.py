# SPDX-License-Identifier: BSD-2-Clause
"""A language model: from a book to text that the secure world writes (`make demo-text-train`, `make demo-text`).

Not in here: what records and builds it, which is what any network takes: `record onnx`, and `build --state`.

Read first: export.py
"""

from pathlib import Path

DECODER = Path(__file__).with_name("decoder.onnx")  # `make demo-text-train` makes it again
