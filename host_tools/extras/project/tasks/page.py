# SPDX-License-Identifier: BSD-2-Clause
"""The results of a project as one HTML page: no script, nothing from elsewhere, all text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from host_tools.support.html import environment, policy_hash
from host_tools.support.version import TOOL

HERE = Path(__file__).parent


def page(results: Mapping[str, Any], problems: Mapping[str, Sequence[str]]) -> str:
    """The page; the same results always give the same text.

    Args:
        results: as in results.json.
        problems: title of a row -> what is wrong with it, a sentence each.
    """
    style = (HERE / "page.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src 'sha256-{policy_hash(style)}'; base-uri 'none'; form-action 'none'"
    templates = environment(HERE)
    templates.filters["number"] = _number
    template = templates.get_template("page.html")
    return template.render(results=results, problems=problems, policy=policy, style=Markup(style), tool=TOOL)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
