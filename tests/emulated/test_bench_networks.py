# SPDX-License-Identifier: BSD-2-Clause
"""What `python -m tests.bench lenet` measures: the firmware of a core without instructions for SHA-256 is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.runners import firmware
from tests.bench import networks
from tests.support import replayer_samples as s


def test_the_firmware_of_a_plain_core_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files are compared with one another when they are loaded."""
    made = firmware.build(s.KEY)
    monkeypatch.setattr(firmware, "firmware_for", lambda _: made)
    folder = networks._plain_firmware(None, tmp_path)  # type: ignore[arg-type]
    plain = firmware.load(folder)
    assert plain.binary.read_bytes() != made.binary.read_bytes()
