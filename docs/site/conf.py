# SPDX-License-Identifier: BSD-2-Clause
"""Sphinx makes a site of the pages as they are: `make site`, into build/site.

The checkout is the folder of the sources, so that links between pages, and to sources and tests, are those that a
forge follows, too. Links to files that are no pages become downloads. A link that leads nowhere is an error. The
site loads nothing from elsewhere, and its search works without a server.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from host_tools.support.version import VERSION

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CHECKOUT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
# `make site` puts pdoc's pages there.
API = '\n<p><a href="api/index.html">Python API</a></p>\n'

project = "Gramophone"
author = "The Gramophone authors"
project_copyright = "The Gramophone authors, BSD-2-Clause"
version = release = VERSION

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "host_tools/**.md", "tee_replayer/**.md"]
exclude_patterns = [".*", "build", "**/__pycache__", "docs/changes/[+0-9]*"]

# As on forges: headings of all levels are targets, by the same rule. A picture as HTML is a picture here, too.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]
suppress_warnings = [
    "toc.not_included",  # decisions are listed on a page of their own
    "misc.highlighting_failure",  # of sessions with lines left out
    "myst.header",  # a page begins at the level that its folder's others do
]

html_theme = "furo"
html_title = f"Gramophone {VERSION}"
html_show_sourcelink = False
html_copy_source = False


def navigation(index: str) -> str:
    """The sections of the index of documents as Sphinx's tables of contents."""
    parts = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        pages = [f"docs/{name}" for name in re.findall(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", section, re.MULTILINE)]
        rows = "\n".join(pages)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{rows}\n```\n")
    return "\n".join(parts)


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page the tables of contents, which a forge would show as text."""
    if name == root_doc:
        index = (CHECKOUT / f"{INDEX}.md").read_text(encoding="utf-8")
        others = "```{toctree}\n:hidden:\n:caption: Project\n\nCONTRIBUTING\nSECURITY\nCHANGELOG\n```\n"
        source[0] += f"{API}\n{navigation(index)}\n{others}"


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", add_navigation)
