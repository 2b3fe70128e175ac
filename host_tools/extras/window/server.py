# SPDX-License-Identifier: BSD-2-Clause
"""Serves pages to the browser of this machine, and to nobody else.

The server listens on loopback only. Other users of the machine, and pages of other sites that the browser shows,
can also reach the port. So every path begins with a random key, and the Host header must name this server, because
another site's name may lead to 127.0.0.1. Threads read requests. The main thread answers them one after the other,
because sandboxes are forks.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
KEY_BYTES = 18
MOST_FIELDS = 8  # of a query
SILENT_S = 30.0  # after which a connection without a request is closed
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HTML, CSS, JS, TEXT = (f"text/{kind}; charset=utf-8" for kind in ("html", "css", "javascript", "plain"))


@dataclass(frozen=True)
class Page:
    """What is sent.

    Attributes:
        body: text.
        type: media type.
        policy: Content-Security-Policy.
        status: of HTTP.
    """

    body: str
    type: str = HTML
    policy: str = POLICY
    status: HTTPStatus = HTTPStatus.OK


Answer = Callable[[str, dict[str, str]], Page]  # path after the key, and query


class Server(ThreadingHTTPServer):
    """Serves what `answer` makes, below a key.

    Args:
        answer: gets a path without the key, and the query.
        port: to listen on; 0: any that is free.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, answer: Answer, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.answer = answer
        self.key = secrets.token_urlsafe(KEY_BYTES)
        self.asked: SimpleQueue[tuple[str, dict[str, str], Future[Page]]] = SimpleQueue()

    @property
    def url(self) -> str:
        """The first page."""
        return f"http://{HOST}:{self.server_port}/{self.key}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone away is no error."""

    def serve(self) -> NoReturn:
        """Answer until the main thread is interrupted."""
        threading.Thread(target=self.serve_forever, daemon=True).start()
        try:
            while True:
                path, query, future = self.asked.get()
                try:
                    future.set_result(self.answer(path, query))
                except Exception as error:
                    future.set_exception(error)
                    raise
        finally:
            self.shutdown()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = SILENT_S
    server_version, sys_version = "gramophone", ""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        port = self.server.server_port
        if self.headers.get_all("Host") not in ([f"{HOST}:{port}"], [f"localhost:{port}"]):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        key, _, path = url.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(key.encode(), self.server.key.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            query = {name: values[-1] for name, values in parse_qs(url.query, max_num_fields=MOST_FIELDS).items()}
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        future: Future[Page] = Future()
        self.server.asked.put((path, query, future))
        self._send(future.result())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A sentence without anything of the request."""
        self.close_connection = True
        self._send(Page(f"{HTTPStatus(code).phrase}\n", TEXT, status=HTTPStatus(code)))

    def _send(self, page: Page) -> None:
        body = page.body.encode("utf-8")
        self.send_response(page.status)
        for name, value in {
            "Content-Type": page.type,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": page.policy,
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: the key is in them."""
