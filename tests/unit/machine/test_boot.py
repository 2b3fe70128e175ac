# SPDX-License-Identifier: BSD-2-Clause
"""What a recording says when the virtual GPU stops: after how many jobs, why, and what to do."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from host_tools.machine import boot as module
from host_tools.machine import saved_state
from host_tools.machine.boot import GuestJob, StoppedError, boot
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot

UNKNOWN = (
    "mali_g71: compute job at GPU address 0x10: clause at 0x20: an ADD operation that is not known (0x03d715)"
)
WRONG = "mali_g71: compute job at GPU address 0x10: a workgroup of more threads than the GPU holds (0x181)"


def stopping(monkeypatch: pytest.MonkeyPatch, status: int, stderr: str, jobs: int = 12) -> None:
    """A QEMU that ends so, with the virtual GPU's counters."""

    def load(command: list[str], *_: Any) -> subprocess.CompletedProcess[str]:
        stats = re.search(r"stats=([^,]+)", " ".join(command))
        assert stats is not None
        Path(stats[1]).write_text(json.dumps({"error": "it stopped", "jobs": jobs, "faults": 0}), encoding="utf-8")
        return subprocess.CompletedProcess(command, status, "", stderr)

    monkeypatch.setattr(module, "_ready", lambda *_: Path("/nowhere"))
    monkeypatch.setattr(module, "_command", lambda *words, **_: [words[-1]])
    monkeypatch.setattr(saved_state, "load", load)


def said(gpu: str, kind: type[RecordError] = RecordError) -> str:
    with pytest.raises(kind) as found:
        boot(GuestJob("true", gpu=gpu), cast(RecordRoot, None), Path("plugin.so"))
    return str(found.value)


def test_an_operation_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping(monkeypatch, 3, f"warning\ngramophone: virtual GPU: {UNKNOWN}\n")
    assert said("mali_g71", StoppedError) == (
        f"the virtual GPU stopped after 12 jobs: {UNKNOWN}; `--gpu v3d42` may record it; please report 0x03d715"
    )


def test_what_is_wrong_needs_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping(monkeypatch, 3, f"gramophone: virtual GPU: {WRONG}\n", jobs=0)
    assert said("mali_g71", StoppedError) == f"the virtual GPU stopped after 0 jobs: {WRONG}"


def test_no_other_gpu_is_named_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping(monkeypatch, 3, "gramophone: virtual GPU: v3d42: textures that are not modelled\n")
    assert said("v3d42").endswith("after 12 jobs: v3d42: textures that are not modelled; please report this")


@pytest.mark.parametrize(
    ("status", "stderr"), [(3, "another error\n"), (1, f"gramophone: virtual GPU: {UNKNOWN}\n")]
)
def test_another_failure_is_qemus(monkeypatch: pytest.MonkeyPatch, status: int, stderr: str) -> None:
    stopping(monkeypatch, status, stderr)
    assert said("mali_g71") == f"qemu-system-aarch64 failed with status {status}: {stderr.strip()}"
