# SPDX-License-Identifier: BSD-2-Clause
"""Whom the server answers: the browser that has the key, under the server's own name, on this machine."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.extras.window.command import open_command
from host_tools.extras.window.server import POLICY, Page, Server
from tests.support.places import CHECKOUT
from tests.support.small_jobs import DOUBLE_TWICE, small
from tests.support.window import served


@pytest.fixture
def server() -> Iterator[Server]:
    with served(lambda path, query: Page(f"{path} {sorted(query.items())}")) as found:
        yield found


def ask(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_the_key_opens_the_page(server: Server) -> None:
    assert re.fullmatch(rf"http://127\.0\.0\.1:{server.server_port}/[\w-]{{24}}/", server.url)
    status, body, headers = ask(server, f"/{server.key}/job/3?width=28&width=4")
    assert (status, body) == (200, "job/3 [('width', '4')]")
    assert headers["Content-Security-Policy"] == POLICY
    assert POLICY.startswith("default-src 'none'; style-src 'self'; script-src 'self'; img-src data:;")
    assert "unsafe" not in POLICY
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Python" not in headers["Server"]


def test_another_key_opens_nothing(server: Server) -> None:
    for path in ("/", "//", "/favicon.ico", f"/{server.key[:-1]}/", f"/{server.key}x/"):
        status, body, headers = ask(server, path)
        assert (status, body) == (404, "Not Found\n"), path
        assert headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "", "127.0.0.1:80@evil.example"]
)
def test_another_name_is_refused(server: Server, host: str) -> None:
    """A site whose name leads to 127.0.0.1 reaches the port, with its own name in the request."""
    assert ask(server, f"/{server.key}/", Host=host)[:2] == (403, "Forbidden\n")


def test_a_host_is_named_once(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), 30) as raw:
        line = f"GET /{server.key}/ HTTP/1.1\r\n"
        raw.sendall(f"{line}Host: 127.0.0.1:{server.server_port}\r\nHost: evil.example\r\n\r\n".encode())
        assert b" 403 " in raw.makefile("rb").readline()


def test_only_reading(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "<script>"):
        status, body, headers = ask(server, f"/{server.key}/", method)
        assert status == 501
        assert body == "Not Implemented\n"
        assert "Access-Control-Allow-Origin" not in headers
    assert ask(server, f"/{server.key}/?" + "a=1&" * 100)[0] == 400


def test_it_listens_on_loopback_only(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


def interruptible() -> None:
    """Shells let background jobs ignore Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    (folder / "net.gtr").write_bytes(small(*DOUBLE_TWICE).build())
    command = [sys.executable, "-m", "host_tools.cli", "open", "net.gtr", "--no-browser", *words]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=interruptible,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    return process, next((line.strip() for line in lines if line.startswith("http://")), "")


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    process, url = start(tmp_path, "--json")
    _, _, host, path = url.split("/", 3)
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", f"/{path}job/1")
    answer = connection.getresponse()
    assert answer.status == 200
    assert "After: what it has written" in answer.read().decode()
    taken, _ = start(tmp_path, "--port", host.partition(":")[2])
    said = taken.communicate(timeout=60)
    assert taken.returncode == 2
    assert "Address already in use" in said[1] or said[1] == ""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == f'{{"ok": true, "warnings": [], "url": "{url}", "pages": 1}}\n'


def test_what_is_no_trace_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "net.gtr").write_bytes(b"no trace")
    done = CliRunner().invoke(open_command, [str(tmp_path / "net.gtr")])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {tmp_path}/net.gtr at offset 0x")


def test_a_browser_is_started(tmp_path: Path) -> None:
    """Python's own module starts it; the test has a program for it that writes down what it is given."""
    program = tmp_path / "shows"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown\n')
    program.chmod(0o755)
    (tmp_path / "net.gtr").write_bytes(small(*DOUBLE_TWICE).build())
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "BROWSER": f"{program} %s"}
    command = [sys.executable, "-m", "host_tools.cli", "open", "net.gtr"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stderr=subprocess.PIPE, preexec_fn=interruptible
    ) as process:
        assert process.stderr is not None
        url = next(line.strip() for line in iter(process.stderr.readline, "") if line.startswith("http://"))
        while not (tmp_path / "shown").is_file() or not (tmp_path / "shown").read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
    assert (tmp_path / "shown").read_text().strip() == url
