# SPDX-License-Identifier: BSD-2-Clause
"""An object store on loopback that speaks S3's REST interface, and may misbehave.

Facts: Amazon S3 API reference (GetObject, PutObject, HeadObject, DeleteObject, ListObjectsV2,
CreateMultipartUpload, UploadPart, CompleteMultipartUpload, error responses) and "Authenticating requests: using
the Authorization header (AWS Signature Version 4)". The client of the tests is a program of others, so what is
misunderstood here fails there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from tests.support.loopback import serving

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/(?P<scope>[^,]+), SignedHeaders=(?P<names>[^,]+), "
    r"Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass
class Buckets:
    """What is in a store, and what was asked of it.

    Attributes:
        address: HOST:PORT.
        objects: BUCKET/KEY -> bytes; its buckets are those of `names`.
        changed: BUCKET/KEY -> when it was written (UTC); whole seconds count.
        names: buckets that are there.
        page: keys that one answer to a listing has at most.
        asked: how often a method was asked for.
        fault: asked before each answer, with method and BUCKET/KEY: "" or what goes wrong, "403", "503" or "cut"
            (half of the body, then the connection is closed).
    """

    address: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    changed: dict[str, datetime] = field(default_factory=dict)
    names: set[str] = field(default_factory=lambda: {"bucket"})
    page: int = 1000
    asked: Counter[str] = field(default_factory=Counter)
    fault: Callable[[str, str], str] = lambda method, name: ""
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, data: bytes) -> None:
        """Write an object: all of it or nothing, as S3 does."""
        with self.lock:
            self.objects[name] = data
            self.changed.setdefault(name, datetime.now(UTC))

    def settings(self) -> dict[str, str]:
        """Environment variables that lead clients here."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ALLOW_HTTP": "true",
        }


@contextmanager
def buckets() -> Iterator[Buckets]:
    """A store with one empty bucket."""
    store = Buckets()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer is one packet: else each waits for the acknowledgement of its head

        def do_GET(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            name = unquote(url.path).lstrip("/")
            bucket, _, key = name.partition("/")
            fault = store.fault(self.command, name)
            with store.lock:
                store.asked[self.command] += 1
            if fault == "403":
                return self.refuse(403, "AccessDenied", "Access Denied")
            if fault == "503":
                return self.refuse(503, "SlowDown", "Reduce your request rate.")
            if code := _unsigned(self.command, self.path, dict(self.headers), self.body):
                return self.refuse(403, code, "The request is not signed as it should be.")
            if bucket not in store.names:
                return self.refuse(404, "NoSuchBucket", "The specified bucket does not exist")
            if not key:
                return self.listed(bucket, query)
            if self.command == "POST":
                return self.multipart(name, query)
            if self.command == "PUT":
                if "uploadId" in query:
                    store.uploads[query["uploadId"]][int(query["partNumber"])] = self.body
                else:
                    store.put(name, self.body)
                return self.answer(200, ETag=_etag(self.body))
            if self.command == "DELETE":
                store.objects.pop(name, None)
                return self.answer(204)
            if (data := store.objects.get(name)) is None:
                return self.refuse(404, "NoSuchKey", "The specified key does not exist.")
            return self.content(name, data, fault)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def content(self, name: str, data: bytes, fault: str) -> None:
            about = {"ETag": _etag(data), "Last_Modified": format_datetime(store.changed[name], usegmt=True)}
            status, part = 200, data
            if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                first, last = int(wanted[1]), int(wanted[2] or len(data) - 1)
                if first >= len(data):
                    return self.refuse(416, "InvalidRange", "The requested range is not satisfiable")
                status, part = 206, data[first : last + 1]
                about["Content_Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
            self.answer(status, part, cut=fault == "cut", **about)

        def listed(self, bucket: str, query: dict[str, str]) -> None:
            prefix, until = f"{bucket}/{query.get('prefix', '')}", query.get("delimiter", "")
            names = sorted(name for name in list(store.objects) if name.startswith(prefix))
            below: set[str] = set()  # folders, of a listing that does not go into them
            if until:
                parts = {name: name[len(prefix) :].partition(until) for name in names}
                below = {prefix + first + until for first, found, _ in parts.values() if found}
                names = [name for name in names if not parts[name][1]]
            folders = "".join(
                f"<CommonPrefixes><Prefix>{escape(name.partition('/')[2])}</Prefix></CommonPrefixes>"
                for name in sorted(below)
            )
            after = query.get("continuation-token", "")
            left = [name for name in names if name > after]
            page = left[: min(store.page, int(query.get("max-keys", "1000")))]
            rows = "".join(
                f"<Contents><Key>{escape(name.partition('/')[2])}</Key><Size>{len(store.objects[name])}</Size>"
                f"<LastModified>{store.changed[name]:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
                for name in page
            )
            more = len(left) > len(page)
            token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
            text = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}{folders}"
            self.answer(200, f"<ListBucketResult>{text}</ListBucketResult>".encode())

        def multipart(self, name: str, query: dict[str, str]) -> None:
            if "uploads" in query:
                upload = f"upload{len(store.uploads)}"
                store.uploads[upload] = {}
                text = f"<R><Bucket/><Key/><UploadId>{upload}</UploadId></R>"
                return self.answer(200, text.encode())
            parts = store.uploads.pop(query["uploadId"])
            wanted = [
                int(found.text or "") for found in ElementTree.fromstring(self.body).iter() if "PartN" in found.tag
            ]
            data = b"".join(parts[number] for number in wanted)
            store.put(name, data)
            self.answer(200, f"<R><Location/><Bucket/><Key/><ETag>{_etag(data)}</ETag></R>".encode())

        def refuse(self, status: int, code: str, text: str) -> None:
            head = '<?xml version="1.0" encoding="UTF-8"?>\n'
            self.answer(status, f"{head}<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode())

        def answer(self, status: int, body: bytes = b"", *, cut: bool = False, **headers: str) -> None:
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = self.close_connection or cut

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as store.address:
        yield store


@pytest.fixture(name="store")
def bucket_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    """A store that this process, and those that it starts, find."""
    with buckets() as store:
        for name, value in store.settings().items():
            monkeypatch.setenv(name, value)
        yield store


def _etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _unsigned(method: str, path: str, headers: dict[str, str], body: bytes) -> str:
    """What is wrong with a request's signature, as S3's code; "": nothing."""
    given = {name.lower(): value.strip() for name, value in headers.items()}
    found = _AUTHORIZATION.fullmatch(given.get("authorization", ""))
    if not found:
        return "AccessDenied"
    if found["key"] != KEY:
        return "InvalidAccessKeyId"
    digest = given["x-amz-content-sha256"]
    if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
        return "XAmzContentSHA256Mismatch"
    url = urlsplit(path)
    pairs = sorted(parse_qsl(url.query, keep_blank_values=True))
    query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs)
    lines = "".join(f"{name}:{given[name]}\n" for name in found["names"].split(";"))
    canonical = "\n".join((method, url.path, query, lines, found["names"], digest))
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    what = f"AWS4-HMAC-SHA256\n{given['x-amz-date']}\n{found['scope']}\n{hashed}"
    key = f"AWS4{SECRET}".encode()
    for word in found["scope"].split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    right = hmac.compare_digest(hmac.digest(key, what.encode(), "sha256").hex(), found["signature"])
    return "" if right else "SignatureDoesNotMatch"
