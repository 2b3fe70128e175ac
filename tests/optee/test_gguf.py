# SPDX-License-Identifier: BSD-2-Clause
"""A language model answers from OP-TEE's secure world what it answers on the virtual GPU."""

from __future__ import annotations

import json
from pathlib import Path

from host_tools.machine.root import RecordRoot
from tests.qemu.test_gguf import gramophone, signed
from tests.support import gguf_models
from tests.support.gguf_models import Decoder


def test_chat_through_op_tee(root: RecordRoot, pta: Path, tmp_path: Path) -> None:
    """`pta` is requested so that without OP-TEE the test is skipped with its reason."""
    assert pta.is_dir()
    model = Decoder(architecture="qwen3", layers=1, tokens=272).write(tmp_path / "m.gguf", **gguf_models.words())
    trace, key = signed(model, tmp_path)
    signed_file, key_file = tmp_path / "net.sgtr", tmp_path / "pub.pem"
    signed_file.write_bytes(trace.data)
    key_file.write_bytes(key.pem())
    command = ["chat", signed_file, "--key", key_file, "--prompt", "the", "--json", "--tokens", 4]
    here, there = (json.loads(gramophone(*command, "--on", machine)) for machine in ("vgpu", "optee"))
    assert here == there
    assert here["tokens"] == 4
