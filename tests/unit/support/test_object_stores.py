# SPDX-License-Identifier: BSD-2-Clause
"""Which URLs are object stores, and what their answers say in one line."""

from __future__ import annotations

import pytest

from host_tools.support.object_stores import protocol, reason


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("s3://bucket/folder", "s3"),
        ("gs://bucket", "gs"),
        ("az://container", "az"),
        ("file:///folder", None),
        ("s3:/bucket", None),
        ("folder/s3://bucket", None),
        ("s3", None),
        ("", None),
    ],
)
def test_protocols(address: str, kind: str | None) -> None:
    assert protocol(address) == kind


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "ValueError"),
        ("first\nsecond", "first"),
        (
            'Error performing PUT: 404 Not Found: <?xml version="1.0"?>\n<Error><Code>NoSuchBucket</Code>'
            "<Message>no such bucket</Message></Error>\n\nDebug source:",
            "Error performing PUT: 404 Not Found: NoSuchBucket: no such bucket",
        ),
        ("404: <Error><Code>A</Code></Error>", "404: <Error><Code>A</Code></Error>"),
    ],
)
def test_reasons(text: str, line: str) -> None:
    assert reason(ValueError(text)) == line
