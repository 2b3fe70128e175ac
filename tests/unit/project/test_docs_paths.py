# SPDX-License-Identifier: BSD-2-Clause
"""Source files that documents name are there. Decisions and the changelog are history, and not held to that."""

from __future__ import annotations

import re

import pytest

from tests.support.pages import PAGES
from tests.support.places import CHECKOUT
from tests.unit.docs.test_docs import text_of

# A path is written from the checkout, or from one of these folders.
ROOTS = ("", "host_tools", "host_tools/gpus/mali", "tee_replayer", "tee_replayer/optee", "tests", "trace_format")
FILE = re.compile(r"`((?:[\w*-]+/)+[\w.*-]+\.(?:py|c|h|S|toml|mk|md|json))`")
PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z][A-Z-]+(?![A-Za-z])")  # NAME.toml, gpus/FAMILY/vgpu
# Of Linux, of other projects, and of what is generated.
NOT_OURS = re.compile(r"drivers/uio/|(?:out|tee|pta|scripts|runtime)/")


def missing(text: str) -> list[str]:
    """Files that a text names and that are not there."""
    named = [path for path in FILE.findall(text) if not PLACEHOLDER.search(path) and not NOT_OURS.match(path)]
    return [path for path in named if not any(any((CHECKOUT / root).glob(path)) for root in ROOTS)]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    assert missing(text_of(CHECKOUT / page)) == []


def test_a_file_that_is_gone_is_found() -> None:
    assert missing("`model/memory.py`, `core/check.c`, `trace_format/gpus/NAME.toml`, `out/sub.mk`") == []
    assert missing("`model/teapot.py`, `tests/support/teapots_*.py`") == [
        "model/teapot.py",
        "tests/support/teapots_*.py",
    ]
