# SPDX-License-Identifier: BSD-2-Clause
"""The provisioning manifest: one encoding, every field of its type, documented."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import FORMAT, Manifest, Missing, Piece, SignedTrace, TrustedApplication, gpu_name
from tests.support.places import CHECKOUT
from trace_format import profile

BOARDS = CHECKOUT / "docs" / "BOARDS.md"
SIZE = st.integers(0, 2**63)
TEXT = st.text(max_size=12)
MANIFESTS = st.builds(
    Manifest,
    **{field.name: TEXT for field in fields(Manifest) if field.type == "str" and field.name != "format"},
    min_security_version=SIZE,
    image_bytes=SIZE,
    pieces=st.lists(st.builds(Piece, TEXT, SIZE, SIZE, TEXT), max_size=3).map(tuple),
    traces=st.lists(st.builds(SignedTrace, TEXT, TEXT, TEXT, SIZE, TEXT), max_size=3).map(tuple),
    trusted_applications=st.lists(st.builds(TrustedApplication, TEXT, TEXT, SIZE, TEXT), max_size=3).map(tuple),
    missing=st.lists(st.builds(Missing, TEXT, TEXT), max_size=3).map(tuple),
)
SAMPLE = Manifest(
    **{field.name: "x" for field in fields(Manifest) if field.type == "str" and field.name != "format"},
    min_security_version=1,
    image_bytes=2,
    pieces=(Piece("a", 1, 2, "ab"),),
    traces=(),
    trusted_applications=(),
    missing=(),
)


@given(MANIFESTS)
def test_what_is_written_is_read_back(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode()) == manifest


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(SAMPLE.encode()), **values}, indent=2, sort_keys=True).encode() + b"\n"


MALFORMED = {
    "nothing": (b"", "gramophone.json is not JSON"),
    "a list": (b"[]\n", f"format of gramophone.json: expected {FORMAT}, found list"),
    "deep": (b"[" * 100_000, "gramophone.json is not JSON"),
    "another format": (changed(format="gramophone-provisioning-2"), "format of gramophone.json"),
    "a field more": (changed(more=1), "fields of gramophone.json"),
    "a field less": (SAMPLE.encode().replace(b'  "gpu": "x",\n', b""), "fields of gramophone.json"),
    "another type": (changed(gpu=1), "gramophone.json, gpu: expected str, not negative, found 1"),
    "a truth": (changed(image_bytes=True), "gramophone.json, image_bytes: expected int, not negative, found True"),
    "negative": (changed(image_bytes=-1), "gramophone.json, image_bytes"),
    "a fraction": (changed(image_bytes=1.0), "gramophone.json, image_bytes"),
    "no list": (changed(pieces={}), "gramophone.json, pieces: expected a list, found dict"),
    "no piece": (changed(pieces=[1]), "fields of gramophone.json, pieces: expected bytes, name, offset, sha256"),
    "other blanks": (
        json.dumps(json.loads(SAMPLE.encode())).encode(),
        "gramophone.json is not in its canonical form",
    ),
    "a field twice": (SAMPLE.encode().replace(b'  "gpu"', b'  "gpu": "y",\n  "gpu"'), "canonical form"),
    "more after the end": (SAMPLE.encode() + b"\n", "canonical form"),
    "bytes that are no text": (b"\xff\xfe\x00", "gramophone.json is not JSON"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    data, reason = MALFORMED[name]
    with pytest.raises(ImageError) as error:
        Manifest.decode(data)
    assert reason in str(error.value)


def test_every_field_is_documented() -> None:
    """docs/BOARDS.md has a table for each kind of record, a row for each field."""
    text = BOARDS.read_text(encoding="utf-8")
    for kind in (Manifest, Piece, SignedTrace, TrustedApplication, Missing):
        table = text.split(f"<!-- {kind.__name__} -->")[1].split("\n\n")[0]
        assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == sorted(field.name for field in fields(kind))


def test_profiles_are_named() -> None:
    assert {gpu_name(profile.load(name).profile_id) for name in profile.names()} == set(profile.names())
    assert gpu_name(0) == ""
