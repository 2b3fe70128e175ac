# SPDX-License-Identifier: BSD-2-Clause
"""The recording roots in the cache: which one is taken, which ones go. Nothing is fetched."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from host_tools.machine import root
from host_tools.machine.errors import RecordError
from host_tools.machine.root import KEPT_UNUSED_S, record_root
from host_tools.support.cache import cache_dir


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def prepared(key: str, builder: str, unused_s: float = 0.0) -> Path:
    """Manifest of a root that a version of this tool prepared, and took last so long ago."""
    folder = cache_dir("record", key)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({"key": key, "builder": builder, "kernel": "6.12", "packages": []}))
    os.utime(manifest, (time.time() - unused_s,) * 2)
    (folder.parent / f"current-{builder}").write_text(f"{key}\n")
    return manifest


def test_each_version_of_the_tool_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for builder in ("old", "new"):
        prepared(f"made by {builder}", builder)
    for builder in ("old", "new"):
        monkeypatch.setattr(root, "_builder", lambda builder=builder: builder)
        assert record_root().key == f"made by {builder}"
    monkeypatch.setattr(root, "_builder", lambda: "newer")
    with pytest.raises(RecordError, match=r"not prepared .*: run `make record-root`"):
        record_root()


def test_roots_that_nobody_uses_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "_builder", lambda: "mine")
    mine = prepared("mine", "mine", 2 * KEPT_UNUSED_S)
    other = prepared("other", "other", KEPT_UNUSED_S - 60)
    unused = prepared("unused", "another", KEPT_UNUSED_S + 60)
    record_root()  # taken: not unused any more
    root._remove_unused(cache_dir("record"))
    assert mine.exists()
    assert other.exists()
    assert not unused.parent.exists()
