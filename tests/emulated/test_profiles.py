# SPDX-License-Identifier: BSD-2-Clause
"""Each supported set of features (tee_replayer/profiles.toml), as firmware in Unicorn, refuses hostile traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools import runners
from signing import envelope
from signing.delivery import Delivery
from tee_replayer.generator import profiles
from tee_replayer.generator.status import Report
from tests.support import hostile, hostile_envelope, hostile_operators, hostile_pieces
from tests.support import trust_samples as t
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_rows import MIN_SECURITY_VERSIONS, V3D
from tests.support.profile_firmware import NAMES, anchor, folder_of
from trace_format.schema.report import Phase

SECRET_BYTES, NOW = 32, 1_800_000_000
# What a trace needs, or whose envelope it is: other features say other things of these rows, or nothing.
_OF_FEATURES = {str(row) for row in (*hostile_envelope.ROWS, *hostile_operators.ROWS)}
ROWS = {
    row.name: row
    for row in hostile.LOADS
    if row.gpu == V3D and row.status != "OK" and str(row) not in _OF_FEATURES
}
PIECES = {row.name: row for row in hostile_pieces.LOADS}
CASES = [
    (name, row.name)
    for name in NAMES
    for row in (*ROWS.values(), *(PIECES.values() if profiles.named(name).features.streaming else ()))
    # A message of several signatures is made by a program that refuses malformed headers.
    if row.status != "HEADER" or not profiles.named(name).features.trust
]


def report_of(name: str, signed: bytes, folder: Path) -> Report:
    """What a profile's device says of a file, which is signed again where a policy says who signs."""
    features = profiles.named(name).features
    if features.trust:
        trace = bytes(envelope.split(signed).trace)
        signed = t.join(trace, t.signatures(trace))
    require(COMPILER, "gcc-aarch64-linux-gnu")
    compiled = folder_of(name, V3D, MIN_SECURITY_VERSIONS[V3D])
    (folder / "device.secret").write_bytes(bytes(range(SECRET_BYTES)))  # of replay logs and encrypted traces
    flash = folder / "flash" if features.store else None
    found = runners.run(
        "unicorn",
        Delivery(signed),
        anchor(name),
        gpu=V3D,
        firmware=compiled,
        store=folder,
        flash=flash,
        clock=NOW if features.clock else None,
    )
    return found.report


@pytest.mark.sampled(5 * len(NAMES))
@pytest.mark.parametrize(("name", "row"), CASES)
def test_a_hostile_trace_is_refused(name: str, row: str, tmp_path: Path) -> None:
    tried = (PIECES | ROWS)[row]
    report = report_of(name, tried.make(), tmp_path)
    assert (report.name, report.phase) == (tried.status, Phase.LOAD)
