# SPDX-License-Identifier: BSD-2-Clause
"""A behaviour report as one HTML page: nothing from elsewhere, all text escaped, one script, which searches.

What a trace says is anyone's text. The template escapes every value, control characters and those that change
the order of text become visible escapes, and the page's own policy (Content-Security-Policy) forbids everything
but its style sheet and its script, by their hashes. The page is also well-formed XML, so the script has no `<` and
no `&`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from host_tools.audit.report import graph, memory_chart, network, piece_chart, words
from host_tools.audit.report.facts import File, Report
from host_tools.support.html import environment, policy_hash
from host_tools.support.version import VERSION

HERE = Path(__file__).parent
POLICY = "default-src 'none'; style-src 'sha256-{style}'; script-src {script}; base-uri 'none'; form-action 'none'"


def page(report: Report, *, unfolded: bool = False) -> str:
    """The page; the same report always gives the same text.

    Args:
        unfolded: show all that is folded, for paper.
    """
    layers = network.layers(report)
    each, folded = network.each(layers), network.folded(report, layers)
    views = [graph.picture("layers", report, layers, each)] if report.flow.basis and layers else []
    if views and len(folded) < len(each):
        views.insert(0, graph.picture("blocks", report, layers, folded))
    return _rendered(
        "page.html",
        script=True,
        report=report,
        unfolded=unfolded,
        layers=layers,
        layer_of={job: number for number, layer in enumerate(layers) for job in layer.jobs},
        measure=network.measure(report)[0],
        views=views,
        chart=memory_chart.memory_chart(report),
        accesses=memory_chart.accesses(report),
        pieces=piece_chart.piece_chart(report),
        linked={(found.shader, found.line) for found in report.findings if found.line is not None},
        words=words,
    )


def unreadable_page(file: File, reason: str) -> str:
    """The page on a file of which nothing can be said but why it cannot be read.

    Args:
        file: the file.
        reason: the error's sentence.
    """
    return _rendered("unreadable.html", script=False, file=file, reason=reason, tool=f"gramophone {VERSION}")


def _rendered(template: str, *, script: bool, **values: Any) -> str:
    style = (HERE / "page.css").read_text(encoding="utf-8")
    code = (HERE / "page.js").read_text(encoding="utf-8") if script else ""
    policy = POLICY.format(style=policy_hash(style), script=f"'sha256-{policy_hash(code)}'" if code else "'none'")
    texts = {"style": Markup(style), "script": Markup(code)}
    return _environment().get_template(template).render(policy=policy, **texts, **values)


def _environment() -> Environment:
    found = environment(HERE)
    found.filters["hex"] = lambda value: f"{value:#010x}"
    found.filters["size"] = words.size
    found.filters["number"] = lambda value: f"{value:,}"
    return found
