# SPDX-License-Identifier: BSD-2-Clause
"""The results of a project as one HTML page: no script, nothing from elsewhere, all text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from host_tools.support.version import TOOL
from trace_format.errors import printable

HERE = Path(__file__).parent


def page(results: Mapping[str, Any], problems: Mapping[str, Sequence[str]]) -> str:
    """The page; the same results always give the same text.

    Args:
        results: as in results.json.
        problems: title of a row -> what is wrong with it, a sentence each.
    """
    style = (HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )
    environment.filters["number"] = _number
    template = environment.get_template("page.html")
    return template.render(results=results, problems=problems, policy=policy, style=Markup(style), tool=TOOL)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _visible(value: object) -> object:
    """A value as the page shows it; what is markup already is left alone."""
    return value if isinstance(value, Markup) else printable(str(value))
