# SPDX-License-Identifier: BSD-2-Clause
"""What the documents point to is there: files, headings, source files and tests that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.places import CHECKOUT

DOCUMENTS = sorted(
    str(path.relative_to(CHECKOUT)) for path in (*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"))
)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
# Capitals are placeholders (PORTING.md).
TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)`((?:[:,] `test_\w+`)*)")


def text_of(path: Path) -> str:
    """A document without its fenced blocks, whose lines may look like headings."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The anchors that headings get: lower case, punctuation dropped, spaces as hyphens."""
    headings = re.findall(r"^#+ (.*)$", text_of(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    # A fragment of the changelog is written as a part of that, in the top folder.
    document = CHECKOUT / re.sub(r"^docs/changes/(?=[+0-9])", "", name)
    for target, anchor in LINK.findall(text_of(CHECKOUT / name)):
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tests_that_are_named_exist(name: str) -> None:
    for file, functions in TEST.findall(text_of(CHECKOUT / name)):
        source = (CHECKOUT / file).read_text(encoding="utf-8")
        for function in re.findall(r"`(test_\w+)`", functions):
            assert f"def {function}(" in source, f"{file}: {function}"


def test_threats_name_tests() -> None:
    assert len(TEST.findall(text_of(CHECKOUT / "docs/THREATS.md"))) > 15
