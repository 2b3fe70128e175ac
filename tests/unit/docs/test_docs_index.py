# SPDX-License-Identifier: BSD-2-Clause
"""The index of the documents has all of them, and the commands that documents show are commands that there are."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.commands import find, split
from tests.support.places import CHECKOUT

DOCS = CHECKOUT / "docs"
ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\): (\S.*)$", re.MULTILINE)
PAGES = sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "README.md", *DOCS.rglob("*.md")))
BLOCK = re.compile(r"^```(?:sh|console)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_document_is_in_the_index_once() -> None:
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    listed = [target for _, target, _ in ENTRY.findall(text)]
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    there -= {path.relative_to(DOCS).as_posix() for path in (DOCS / "adr").glob("[0-9]*.md")}  # adr/README.md
    there -= {path.relative_to(DOCS).as_posix() for path in (DOCS / "changes").glob("[+0-9]*.md")}
    assert set(listed) == there
    assert len(listed) == len(there)
    assert text.count("\n- ") == len(listed), "each entry is one line: a link, a colon, and what it is"


def commands(page: str) -> list[list[str]]:
    """The calls of `gramophone` in the blocks of a page, as words."""
    found = []
    for block in BLOCK.findall((CHECKOUT / page).read_text(encoding="utf-8")):
        for line in re.sub(r"\\\n(> )?", " ", block).splitlines():
            call = re.match(r"(?:\$ |# )?(?:sudo )?gramophone (.*)", line)
            if call:
                words = re.split(r" (?:\||>|&&) |; |   +#| # ", call[1])[0]
                found.append(shlex.split(words))
    return found


def unknown(words: list[str]) -> list[str]:
    """What of a call is no command or option that there is."""
    words, rest = split(words)
    command = find(words)
    if command is None:
        return words
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    options |= {"--help", "-h"}
    rest = rest[: rest.index("--")] if "--" in rest else rest
    return [word for word in rest if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options]


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_pages_exist(page: str) -> None:
    wrong = {shlex.join(words): bad for words in commands(page) if (bad := unknown(words))}
    assert not wrong


def test_commands_are_found() -> None:
    assert len(commands("docs/YOUR-MODEL.md")) > 4
    assert unknown(["flash", "out", "--to", "card.img"]) == ["--to"]
    assert unknown(["flush", "out"]) == ["flush"]
    assert unknown(["record", "film", "out"]) == ["record", "film"]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_a_page_says_first_who_it_is_for(page: str) -> None:
    text = re.sub(r"<!--.*?-->\s*", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    first = text.partition("\n")[2].strip().partition("\n\n")[0]
    assert first.startswith("For "), first
