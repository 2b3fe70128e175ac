# SPDX-License-Identifier: BSD-2-Clause
"""The site that `make site` makes of the documents: every link leads somewhere, every page is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site.conf import navigation
from tests.support.places import CHECKOUT

FROM_ELSEWHERE = re.compile(r'<(?:(?:script|img|iframe)\b[^>]*\bsrc|link\b[^>]*\bhref)="(?:https?:)?//')


def build(sources: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Make the site as the Makefile does."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs/site"]
    command += ["-d", str(folder / "doctrees"), ".", str(folder / "site")]
    return subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(CHECKOUT, folder)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_the_makefile_builds_it_like_that() -> None:
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    assert "-m sphinx -q -W --keep-going -b html -c docs/site -d build/site-doctrees . build/site\n" in makefile


# All pages take ten seconds, with `--exhaustive`. A small site is built below, and whether what pages name exists
# is seen by tests/unit/project/test_docs_paths.py.
@pytest.mark.exhaustive
def test_every_document_is_a_page_and_in_the_navigation(site: Path) -> None:
    first = (site / "README.html").read_text(encoding="utf-8")
    for document in (CHECKOUT / "docs").glob("*.md"):
        assert (site / "docs" / f"{document.stem}.html").is_file(), document
        if document.name != "README.md":
            assert f'href="docs/{document.stem}.html"' in first, document


@pytest.mark.exhaustive
def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not FROM_ELSEWHERE.search(page.read_text(encoding="utf-8")), page


@pytest.mark.exhaustive
def test_search_needs_no_server(site: Path) -> None:
    """The index is a script, which browsers load from a file; it finds pages by their words."""
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert '"carveout"' in index or '"carv' in index


def test_the_navigation_has_the_sections_of_the_index() -> None:
    text = navigation("# Documents\n\n## Look\n\n- [A](A.md): a\n- [B](x/B.md): b\n\n## Judge\n\n- [C](C.md): c\n")
    assert re.findall(r":caption: (\w+)", text) == ["Look", "Judge"]
    assert re.findall(r"^docs/\S+$", text, re.MULTILINE) == ["docs/A", "docs/x/B", "docs/C"]


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    for name in ("docs/site/conf.py", "docs/README.md", "host_tools/support/version.py"):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_bytes((CHECKOUT / name).read_bytes())
    (sources / "docs/README.md").write_text("# Documents\n")
    (sources / "docs/A.md").write_text("# A\n\n## Here\n")
    (sources / "README.md").write_text(
        "# Site\n\n[here](docs/A.md#here), [gone](docs/A.md#gone), [none](docs/N.md)\n"
    )
    for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG"):
        (sources / f"{name}.md").write_text(f"# {name}\n")
    done = build(sources, tmp_path)
    assert done.returncode == 1
    assert "'gone'" in done.stderr
    assert "docs/N.md" in done.stderr
    assert "'here'" not in done.stderr
