# SPDX-License-Identifier: BSD-2-Clause
"""`make demo-text`: recorded, built with state, and written by the secure world as ONNX Runtime writes it.

A recording, and 16 replays in QEMU: with `--exhaustive`. With `make test`, test_self_test.py takes a network of
tinygrad's the same road, tests/vgpu/test_state.py replays with state, and tests/unit/demo/test_text.py writes.
"""

from __future__ import annotations

import pytest

from docs.examples.text import demo
from host_tools.machine.root import RecordRoot

PROMPT = "The Queen said"


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", ["v3d42", "v3d71"])
def test_a_text_is_written_in_the_secure_world(
    gpu: str, root: RecordRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a temperature: what is drawn depends on all that was drawn before."""
    words = ["--prompt", PROMPT, "--tokens", "16", "--temperature", "0.8", "--seed", "5", "--gpu", gpu]
    assert demo.main(words) == 0
    said = capsys.readouterr().out
    assert "16 of 16 tokens are those that ONNX Runtime chooses" in said
    assert PROMPT in said
    (callers,) = (line for line in said.splitlines() if line.startswith("The normal world has"))
    assert "keys" not in callers
    assert "values" not in callers
