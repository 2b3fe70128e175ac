# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile traces (tests/support/hostile.py) before the host: parser, policy, `verify` and `sign`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from signing import envelope
from signing.sign import sign_trace
from signing.verify import Verdict
from tests.support import hostile, hostile_envelope
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile, Unseen
from trace_format.errors import OtherPolicyError, TraceError

WELL_ENVELOPED = [row for row in hostile.TABLE if row not in hostile_envelope.ROWS]
ANSWER_IS_NO, BAD_INPUT = 1, 2


@pytest.mark.parametrize("row", hostile.TABLE, ids=str)
def test_the_host_says_what_is_wrong(row: Hostile) -> None:
    assert hostile.by_host(row.make()) == row.error


@pytest.mark.sampled(40)
@pytest.mark.parametrize("row", hostile.TABLE, ids=str)
def test_verify_says_no(row: Hostile, tmp_path: Path) -> None:
    (tmp_path / "net.sgtr").write_bytes(row.make())
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    line = ["verify", "trace", str(tmp_path / "net.sgtr"), "--key", str(tmp_path / "pub.pem"), "--json"]
    found = CliRunner().invoke(main, line, catch_exceptions=False)
    if row.host is OtherPolicyError:  # another version of this program may judge it
        assert found.exit_code == 0
        assert "was not judged" in found.stderr
    elif isinstance(row.host, Unseen):
        assert found.exit_code == 0, found.output
    else:
        said = json.loads(found.stdout)
        assert found.exit_code in (ANSWER_IS_NO, BAD_INPUT)
        assert not said["ok"]
        if found.exit_code == BAD_INPUT:
            assert found.stderr == f"error: {said['error']}\n"
            assert not isinstance(row.host, Verdict)
        else:
            assert said["verdict"] != Verdict.VERIFIED.value


@pytest.mark.parametrize("row", [row for row in WELL_ENVELOPED if isinstance(row.host, type)], ids=str)
def test_sign_does_not_sign_it(row: Hostile) -> None:
    """What the host objects to gets no signature, whoever asks for it."""
    with pytest.raises(TraceError) as error:
        sign_trace(envelope.split(row.make()).trace, s.ES256)
    assert error.type is row.host


def test_rows_have_names_of_their_own() -> None:
    names = [str(row) for row in hostile.TABLE]
    assert len(names) == len(set(names)) >= 150
    files = [row.make() for row in hostile.LOADS]
    assert len(set(files)) == len(files), "two rows are the same trace"


def test_what_one_side_does_not_see_has_a_reason() -> None:
    for row in hostile.TABLE:
        for side in (row.device, row.host):
            assert not isinstance(side, Unseen) or side.why, row
