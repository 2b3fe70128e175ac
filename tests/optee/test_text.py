# SPDX-License-Identifier: BSD-2-Clause
"""A language model through OP-TEE: its cache is state of the pseudo-TA.

With `--exhaustive`. With `make test`, tests/vgpu/test_state.py replays with state, and test_replay.py in OP-TEE.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.examples.text import demo
from host_tools.machine.root import RecordRoot


@pytest.mark.exhaustive
def test_a_text_is_written_in_op_tee(pta: Path, root: RecordRoot, capsys: pytest.CaptureFixture[str]) -> None:
    """`pta` is requested so that without OP-TEE the test is skipped with its reason."""
    assert pta.is_dir()
    assert demo.main(["--on", "optee", "--tokens", "8"]) == 0
    assert "8 of 8 tokens are those that ONNX Runtime chooses" in capsys.readouterr().out
