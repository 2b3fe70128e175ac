# SPDX-License-Identifier: BSD-2-Clause
"""Registries on loopback: one made for tests, and Debian's docker-registry.

Facts: OCI distribution specification 1.1, "Pushing blobs", "Pushing manifests", "Pull", "Listing Referrers".
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.loopback import serving

INDEX = "application/vnd.oci.image.index.v1+json"
_BLOB = re.compile(r"/v2/(?P<name>.+)/blobs/(?P<digest>sha256:[0-9a-f]{64})")
_UPLOAD = re.compile(r"/v2/(?P<name>.+)/blobs/uploads/(?P<id>\w*)")
_REFERRERS = re.compile(r"/v2/(?P<name>.+)/referrers/(?P<digest>sha256:[0-9a-f]{64})")
_MANIFEST = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>[\w.:-]+)")


@contextmanager
def small_registry() -> Iterator[str]:
    """A registry for one repository, which checks digests; its host and port."""
    blobs: dict[str, bytes] = {}  # by digest
    manifests: dict[str, tuple[str, bytes]] = {}  # by tag and by digest: media type, bytes

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def do_GET(self) -> None:
            if blob := _BLOB.fullmatch(self.path):
                found = blobs.get(blob["digest"])
                return self.answer(404) if found is None else self.answer(200, found)
            if manifest := _MANIFEST.fullmatch(self.path):
                kind, text = manifests.get(manifest["reference"], ("", b""))
                return self.answer(200, text, Content_Type=kind) if kind else self.answer(404)
            if referrers := _REFERRERS.fullmatch(self.path):
                index = {"schemaVersion": 2, "manifests": list(self.referrers(referrers["digest"]))}
                return self.answer(200, json.dumps(index).encode(), Content_Type=INDEX)
            return self.answer(200 if self.path == "/v2/" else 404)

        def referrers(self, digest: str) -> Iterator[dict[str, object]]:
            """Descriptors of the manifests whose subject has a digest."""
            for reference, (kind, text) in list(manifests.items()):
                found = json.loads(text)
                if reference.startswith("sha256:") and found.get("subject", {}).get("digest") == digest:
                    what = found.get("artifactType", found["config"]["mediaType"])
                    yield {"mediaType": kind, "digest": reference, "size": len(text), "artifactType": what}

        do_HEAD = do_GET

        def do_POST(self) -> None:
            self.body()
            self.answer(202, Location=f"{self.path}1") if _UPLOAD.fullmatch(self.path) else self.answer(404)

        def do_PUT(self) -> None:
            url, data = urlsplit(self.path), self.body()
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            if _UPLOAD.fullmatch(url.path) and parse_qs(url.query).get("digest") == [digest]:
                blobs[digest] = data
                return self.answer(201, Location=f"/v2/blobs/{digest}")
            if manifest := _MANIFEST.fullmatch(url.path):
                for reference in (manifest["reference"], digest):
                    manifests[reference] = self.headers["Content-Type"], data
                return self.answer(201, Docker_Content_Digest=digest)
            return self.answer(400)

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as address:
        yield address


@contextmanager
def docker_registry(folder: Path) -> Iterator[str]:
    """The registry that most others descend from; its host and port."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is missing: apt-get install docker-registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}\nhttp:\n  addr: {address}\n"
    )
    process = subprocess.Popen(
        [program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        host, port = address.split(":")
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    break
            time.sleep(0.1)
        else:
            pytest.fail("docker-registry does not answer")
        yield address
    finally:
        process.terminate()
        process.wait()
