# SPDX-License-Identifier: BSD-2-Clause
"""A window on traces while a test looks at it: its pages, and its server in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from host_tools.audit.report.collect import Asked
from host_tools.extras.window.pages import Pages
from host_tools.extras.window.server import HTML, JS, Page, Server
from host_tools.extras.window.session import Session, Subject
from trace_format.trace import Trace

# Steps on by itself, so that a browser that is started once goes through all pages.
STEPPER = """
addEventListener("load", () => {
  if (document.querySelector("a[rel=next]")) {
    const how = { key: "ArrowRight", bubbles: true, cancelable: true };
    document.body.dispatchEvent(new KeyboardEvent("keydown", how));
  }
});
"""


def pages(trace: Trace, other: Trace | None = None, values: Mapping[str, Any] | None = None) -> Pages:
    """The pages of a trace, and of another one to compare with; values: of slots."""
    given = values or {}
    subjects = [
        Subject(Asked(f"{name}.gtr", one.build(), values=given, files=dict.fromkeys(given, "x.npy")), one)
        for name, one in (("net", trace), ("other", other))
        if one is not None
    ]
    return Pages(Session(*subjects))


class Stepping:
    """Pages that press the arrow to the right by themselves, and which of them were asked for."""

    def __init__(self, inner: Pages) -> None:
        self.inner = inner
        self.seen: list[tuple[str, Page]] = []

    def answer(self, path: str, query: Mapping[str, str]) -> Page:
        """The page, with one script more."""
        if path.endswith("step.js"):
            return Page(STEPPER, JS)
        page = self.inner.answer(path, query)
        if page.type != HTML:
            return page
        self.seen.append((path, page))
        up = "../" * path.count("/") or "./"
        return Page(page.body.replace("</head>", f'<script src="{up}step.js"></script></head>'))


@contextmanager
def served(answer: Any) -> Iterator[Server]:
    """A server that answers until the context ends."""
    server = Server(answer)

    def work() -> None:
        while (asked := server.asked.get())[0] is not None:
            path, query, future = asked
            future.set_result(server.answer(path, query))

    threads = [threading.Thread(target=target, daemon=True) for target in (server.serve_forever, work)]
    for thread in threads:
        thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        server.asked.put((None, {}, None))  # type: ignore[arg-type]
        for thread in threads:
            thread.join()
