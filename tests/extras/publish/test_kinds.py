# SPDX-License-Identifier: BSD-2-Clause
"""`inspect` of what goes with a published trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host_tools.extras.publish.kinds import identify
from tests.extras.publish import test_suit as suit
from tests.extras.publish.test_transparency import LOG, STATEMENT, bundle
from tests.support.merkle import ORIGIN
from tests.support.signing_commands import run, run_json
from tests.support.signing_samples import ES256

KID = ES256.kid.hex()
PROOF = ("proof of a transparency log", {"entries": [f"2 of 4 of {ORIGIN} (hashedrekord)"]})
TUF = {
    "signed": {"_type": "root", "version": 3, "expires": "2030-01-01T00:00:00Z"},
    "signatures": [{"keyid": "ab", "sig": ""}],
}
BILL = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "metadata": {"component": {"name": "net"}},
    "components": [{}, {}],
}
FILES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "an envelope": (suit.GOOD.encode(), "SUIT envelope", {"name": "small", "sequence": 3, "signatures": 1}),
    "a statement": (
        STATEMENT.encode(),
        "signed statement (in-toto)",
        {"type": "application/vnd.in-toto+json", "claimed keys": [KID]},
    ),
    "a bundle": (bundle(LOG.entry(2)), *PROOF),
    "an entry": (LOG.entry(2), *PROOF),
    "an entry by its id": (LOG.answer(2), *PROOF),
    "metadata": (TUF, "TUF metadata (root)", {"version": 3, "claimed keys": ["ab"]}),
    "a bill": (BILL, "bill of materials (CycloneDX 1.6)", {"about": "net", "components": 2}),
}


@pytest.mark.parametrize("name", FILES)
def test_each_kind(name: str, tmp_path: Path) -> None:
    content, kind, figures = FILES[name]
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content, indent=1).encode())
    found = run_json("inspect", str(path))
    assert found["kind"] == kind
    assert found["figures"] | figures == found["figures"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not JSON"),
        (b'{"bomFormat": "CycloneDX"}', "metadata: expected an object, found nothing"),
        (b'{"signed": {}, "signatures": []}', "signed: version: expected an integer"),
        (b"\xd8\x6b\xff", "SUIT envelope"),
    ],
)
def test_a_malformed_file_is_one_sentence(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    done = run("inspect", str(path), status=2)
    assert done.stderr.startswith(f"error: {path}")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_none_of_these() -> None:
    for data in (b"", b"dear all", b"{}", b'{"name": {"size": 1}}'):
        assert identify(data, "file") is None
