# SPDX-License-Identifier: BSD-2-Clause
"""What `gramophone replay` says of a refusal that the user can do something about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import replay
from host_tools.runners.needs import secure_bytes
from signing.delivery import Delivery
from signing.sign import sign_trace
from tee_replayer.generator.status import Report, value_of
from tests.support.signing_samples import ES256, small_trace


def report(status: str) -> Report:
    return Report(value_of(status), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(("status", "hint"), [("MEMORY", True), ("ROLLBACK", False)])
def test_a_carveout_that_is_too_small(
    status: str, hint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size that is named suffices by the runners' own estimate."""

    def device(_: str, delivery: Delivery, *_others: Any, **_options: Any) -> replay.ReplayResult:
        return replay.result(report(status), "a device", {}, None, delivery, "v3d42")

    monkeypatch.setattr("host_tools.runners.run", device)
    monkeypatch.chdir(tmp_path)
    trace = small_trace()
    Path("net.sgtr").write_bytes(sign_trace(trace, ES256))
    Path("pub.pem").write_bytes(ES256.public.pem())
    done = CliRunner().invoke(main, ["replay", "net.sgtr", "--key", "pub.pem"], catch_exceptions=False)
    assert done.exit_code == 1
    assert done.stdout.startswith("refused on a device: ")
    found = re.search(
        r"; 'carveout_mib = (\d+)' in its device file gives it enough \[GR005\]$", done.stdout.rstrip()
    )
    assert (found is not None) == hint
    if found:
        enough = secure_bytes(Delivery(Path("net.sgtr").read_bytes()))
        assert enough <= int(found[1]) << 20 < enough + (1 << 20)
