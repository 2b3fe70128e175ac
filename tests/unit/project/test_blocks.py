# SPDX-License-Identifier: BSD-2-Clause
"""Every session that a document shows is run, or marked as not run, with the reason."""

from __future__ import annotations

import pytest

from tests.support.pages import PAGES, RUN, Block, blocks, unexplained
from tests.support.places import CHECKOUT


@pytest.mark.parametrize("page", PAGES)
def test_each_session_is_run_or_says_why_not(page: str) -> None:
    assert unexplained((CHECKOUT / page).read_text(encoding="utf-8"), page in RUN) == []


def test_the_pages_that_are_run_are_there() -> None:
    assert set(RUN) <= set(PAGES)
    assert len(PAGES) > 30


def test_blocks() -> None:
    text = "<!-- not run: it is large -->\n```console\n$ one\n```\ntext\n```sh\ntwo\n```\n"
    assert blocks(text) == [
        Block("console", 2, [(3, "$ one")], {"not run": "it is large"}),
        Block("sh", 6, [(7, "two")]),
    ]


@pytest.mark.parametrize(
    ("text", "is_run", "count"),
    [
        ("```console\n$ one\n```\n", True, 0),
        ("```console\n$ one\n```\n", False, 1),
        ("<!-- not run: it is large -->\n```console\n$ one\n```\n", False, 0),
        ("<!-- not run: it is large -->\n\ntext\n```console\n$ one\n```\n", False, 1),
        ("<!-- not run: -->\n```console\n$ one\n```\n", False, 1),
        ("```console record\n$ one\n```\n", True, 2),
        ("```sh\none\n```\n", True, 1),
        ("<!-- sh, not run: a board -->\n```sh\none\n```\n\n```sh\ntwo\n```\n", True, 0),
        ("```text\n$ one\n```\n", True, 1),
    ],
)
def test_what_is_neither_run_nor_explained_is_found(text: str, is_run: bool, count: int) -> None:
    assert len(unexplained(text, is_run)) == count
