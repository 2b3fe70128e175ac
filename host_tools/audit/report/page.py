# SPDX-License-Identifier: BSD-2-Clause
"""A behaviour report as one HTML page: no script, nothing from elsewhere, all text escaped.

What a trace says is anyone's text. The template escapes every value, control characters and those that change
the order of text become visible escapes, and the page's own policy (Content-Security-Policy) forbids everything
but its style sheet. The page is also well-formed XML.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from host_tools.audit.report import plots, words
from host_tools.audit.report.facts import File, Report
from host_tools.support.version import VERSION
from trace_format.errors import printable

HERE = Path(__file__).parent
POLICY = "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"


def page(report: Report, *, unfolded: bool = False) -> str:
    """The page; the same report always gives the same text.

    Args:
        unfolded: show all that is folded, for paper.
    """
    return _rendered(
        "page.html",
        report=report,
        unfolded=unfolded,
        timeline=plots.timeline(report),
        map=plots.memory_map(report),
        flow=plots.flow_plot(report),
        words=words,
    )


def unreadable_page(file: File, reason: str) -> str:
    """The page on a file of which nothing can be said but why it cannot be read.

    Args:
        file: the file.
        reason: the error's sentence.
    """
    return _rendered("unreadable.html", file=file, reason=reason, tool=f"gramophone {VERSION}")


def _rendered(template: str, **values: Any) -> str:
    style = (HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = POLICY.format(hash=digest)
    return _environment().get_template(template).render(style=Markup(style), policy=policy, **values)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )
    environment.filters["hex"] = lambda value: f"{value:#010x}"
    environment.filters["size"] = words.size
    environment.filters["number"] = lambda value: f"{value:,}"
    return environment


def _visible(value: object) -> object:
    """A value as the page shows it; what is markup already is left alone."""
    return value if isinstance(value, Markup) else printable(str(value))
