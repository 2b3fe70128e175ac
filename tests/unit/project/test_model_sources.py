# SPDX-License-Identifier: BSD-2-Clause
"""Every file of the virtual GPUs' models says in its first lines where its facts come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.places import CHECKOUT

GPUS = CHECKOUT / "host_tools" / "gpus"
FILES = sorted(path for path in GPUS.glob("*/vgpu/**/*") if path.suffix in (".c", ".h"))
BY_NAME = {path.name: path for path in FILES}
SOURCE = re.compile(r"Linux 6\.12?\b|Mesa (22\.3\.6|25\.0\.7)|GPUReplay recordings|trace_format/gpus/\w+\.toml")
ELSEWHERE = re.compile(r"Sources: see (\w+\.[ch])(?: and (\w+\.[ch]))?\.")


def first_comment(path: Path) -> str:
    """The comment that the file begins with, after its licence and that it is not to be formatted, as one line."""
    text = re.sub(r"\A(/\* (SPDX-License-Identifier: [\w.-]+|clang-format off) \*/\n)+", "", path.read_text())
    assert text.startswith("/*"), path
    return " ".join(text[2 : text.index("*/")].replace("\n *", " ").split())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_source_is_named(path: Path) -> None:
    comment = first_comment(path)
    elsewhere = ELSEWHERE.search(comment)
    for comment_with_source in (
        [first_comment(BY_NAME[name]) for name in elsewhere.groups() if name] if elsewhere else [comment]
    ):
        assert SOURCE.search(comment_with_source), comment
