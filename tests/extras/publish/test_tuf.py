# SPDX-License-Identifier: BSD-2-Clause
"""TUF repositories of traces, with python-tuf's client over HTTP on loopback: what it gets and refuses."""

from __future__ import annotations

import datetime
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tuf.api.exceptions import (
    BadVersionNumberError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
    UnsignedMetadataError,
)
from tuf.ngclient import Updater, UpdaterConfig
from tuf.ngclient._internal import trusted_metadata_set

from signing import key_files
from signing.sign import FileSigner, sign_trace
from tests.support import replayer_samples as s
from tests.support import tokens
from tests.support.bad_input import FLEET
from tests.support.loopback import serving
from tests.support.signing_commands import run, run_json
from tests.support.signing_samples import EDDSA, ES256

# root-a and root-b, of which it takes both; lists, with another after a rotation; online, an Ed25519 key
PEOPLE = {name: FileSigner(ec.generate_private_key(ec.SECP256R1())) for name in ("a", "b", "c", "lists", "next")}
SIGNERS = {**PEOPLE, "online": EDDSA}
NET = sign_trace(s.trace(meta={"name": "net", "security_version": 1}).build(), ES256)
NEWER = sign_trace(s.trace(meta={"name": "net", "security_version": 2}).build(), ES256)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(NET)
    Path("fleet.gtp").write_bytes(FLEET)
    for name, signer in SIGNERS.items():
        Path(f"{name}.pem").write_bytes(key_files.private_pem(signer.key))
        Path(f"{name}.pub.pem").write_bytes(signer.public.pem())
    Path("pub.pem").write_bytes(ES256.public.pem())
    return tmp_path


def tuf(command: str, *words: str, status: int = 0) -> dict[str, Any]:
    return run_json("publish", "tuf", command, "repo", *words, status=status)


def sign(role: str, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        found = tuf("sign", role, "--signing-key", f"{name}.pem")
    return found


def publish(*words: str) -> dict[str, Any]:
    return tuf("publish", "--signing-key", "online.pem", *words)


ROOTS = ("--root", "a.pub.pem", "--root", "b.pub.pem", "--root-threshold", "2")
INIT = (*ROOTS, "--targets", "lists.pub.pem", "--online", "online.pub.pem")


@pytest.fixture
def repo() -> None:
    """A repository with a trace and a policy, published."""
    tuf("init", *INIT)
    tuf("add", "net.sgtr", "fleet.gtp")
    sign("root", "a", "b")
    sign("targets", "lists")
    publish()


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder."""

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    with serving(partial(Quiet, directory=str(folder))) as address:  # type: ignore[arg-type]
        yield f"http://{address}/repo"


def client(server: str, kept: str = "kept") -> Updater:
    """A client that has the first root, and what it saw before in a folder."""
    for name in (kept, "got"):
        Path(name).mkdir(exist_ok=True)
    root = Path("repo/metadata/1.root.json").read_bytes()
    config = UpdaterConfig(prefix_targets_with_hash=True)
    return Updater(kept, f"{server}/metadata", "got", f"{server}/targets", config=config, bootstrap=root)


def fetch(server: str, name: str = "net.sgtr") -> bytes:
    one = client(server)
    target = one.get_targetinfo(name)
    assert target is not None
    return Path(one.download_target(target)).read_bytes()


@pytest.mark.usefixtures("repo")
def test_a_client_gets_what_was_published(server: str) -> None:
    assert fetch(server) == NET
    assert fetch(server, "fleet.gtp") == FLEET
    run("verify", "trace", "got/net.sgtr", "--key", "pub.pem")
    assert client(server).get_targetinfo("other.sgtr") is None


@pytest.mark.usefixtures("repo")
def test_a_newer_trace_and_one_taken_away(server: str) -> None:
    assert fetch(server) == NET
    Path("net.sgtr").write_bytes(NEWER)
    assert tuf("add", "net.sgtr")["targets"]["version"] == 2
    tuf("remove", "fleet.gtp")
    assert fetch(server) == NET  # not signed, so nothing has changed for clients
    sign("targets", "lists")
    found = publish("--days", "3")
    assert [one["name"] for one in found["files"]] == ["net.sgtr"]
    assert fetch(server) == NEWER
    assert client(server).get_targetinfo("fleet.gtp") is None


@pytest.mark.usefixtures("repo")
def test_keys_change(server: str) -> None:
    """A new root, by the old keys and the new; a client that has the first one follows. The list is new."""
    found = tuf("keys", "--root", "b.pub.pem", "--root", "c.pub.pem", "--root-threshold", "2",
                "--targets", "next.pub.pem")  # fmt: skip
    assert found["missing"] == [
        "root version 2: 2 of the 2 keys of the root before it",
        "root version 2: 2 of the 2 keys of its own root",
        "targets version 2: 1 of 1 keys",
    ]
    assert tuf("show", status=1)["missing"] == found["missing"]
    assert sign("root", "b", "c")["missing"][0] == "root version 2: 1 of the 2 keys of the root before it"
    sign("root", "a")
    assert sign("targets", "next")["missing"] == []
    publish()
    assert tuf("show")["root"]["version"] == 2
    assert fetch(server) == NET
    shutil.rmtree("kept")
    assert fetch(server) == NET


# What a client refuses.


@pytest.mark.usefixtures("repo")
def test_rollback(server: str) -> None:
    """Whoever has the server gives out yesterday's files, all of them well signed."""
    shutil.copytree("repo", "yesterday")
    Path("net.sgtr").write_bytes(NEWER)
    tuf("add", "net.sgtr")
    sign("targets", "lists")
    publish()
    assert fetch(server) == NEWER
    shutil.copytree("yesterday", "repo", dirs_exist_ok=True)
    with pytest.raises(BadVersionNumberError):
        fetch(server)
    shutil.rmtree("kept")  # a client that has seen nothing cannot know
    assert fetch(server) == NET


@pytest.mark.usefixtures("repo")
def test_freeze(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing new is given out any more: after the days that `publish` says, it is refused."""

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Later:
            return cls.fromtimestamp(datetime.datetime.now(tz).timestamp() + days * 86400, tz)

    class Module:
        timezone = datetime.timezone
        datetime = Later

    monkeypatch.setattr(trusted_metadata_set, "datetime", Module)
    days = 6
    assert fetch(server) == NET
    days = 8
    with pytest.raises(ExpiredMetadataError, match="timestamp"):
        fetch(server)
    publish("--days", "9")
    assert fetch(server) == NET


@pytest.mark.usefixtures("repo")
def test_a_tampered_target(server: str) -> None:
    (path,) = Path("repo/targets").glob("*.net.sgtr")
    path.write_bytes(NET[:-1] + bytes([NET[-1] ^ 1]))
    with pytest.raises(LengthOrHashMismatchError):
        fetch(server)


def _longer(data: dict[str, Any]) -> None:
    data["signed"]["expires"] = "2099-01-01T00:00:00Z"


@pytest.mark.parametrize("name", ["timestamp.json", "1.snapshot.json", "1.targets.json"])
@pytest.mark.usefixtures("repo")
def test_tampered_metadata(name: str, server: str) -> None:
    path = Path("repo/metadata", name)
    data = json.loads(path.read_bytes())
    _longer(data)
    path.write_text(json.dumps(data, sort_keys=True))
    with pytest.raises((UnsignedMetadataError, LengthOrHashMismatchError, DownloadLengthMismatchError)):
        fetch(server)


@pytest.mark.usefixtures("repo")
def test_another_owners_repository(server: str) -> None:
    first = Path("repo/metadata/1.root.json").read_bytes()
    shutil.move("repo", "first")
    tuf("init", "--root", "c.pub.pem", "--targets", "c.pub.pem", "--online", "c.pub.pem")
    tuf("add", "net.sgtr")
    sign("root", "c")
    sign("targets", "c")
    tuf("publish", "--signing-key", "c.pem")
    Path("kept").mkdir()
    one = Updater("kept", f"{server}/metadata", "kept", f"{server}/targets", bootstrap=first)
    with pytest.raises(RepositoryError):
        one.refresh()


# Signers that are elsewhere.


def test_by_token_program_and_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    tuf("init", *INIT)
    tuf("add", "net.sgtr")
    tokens.make(tmp_path, monkeypatch, "safe")
    tokens.put(tmp_path, PEOPLE["a"].key, token="safe", label="a")
    Path("pin").write_bytes(tokens.PIN)
    tuf("sign", "root", "--pkcs11", "pkcs11:token=safe;object=a", "--passphrase-file", "pin")
    words = ("--public-key", "b.pub.pem")
    tuf("sign", "root", *words, "--to-be-signed", "-o", "tbs")
    subprocess.run(["openssl", "dgst", "-sha256", "-sign", "b.pem", "-out", "sig", "tbs"], check=True)
    tuf("sign", "root", *words, "--signature", "sig")
    key = shlex.quote(str(Path("lists.pem").absolute()))
    command = f"openssl dgst -sha256 -sign {key}"
    tuf("sign", "targets", "--public-key", "lists.pub.pem", "--signer-command", command)
    publish()
    assert fetch(server) == NET


# What is not done.


def refused(text: str, command: str, *words: str) -> None:
    found = run("publish", "tuf", command, *words, status=2)
    assert text in found.stderr
    assert found.stderr.count("\n") == 1


def test_signatures_are_missing() -> None:
    tuf("init", *INIT)
    tuf("add", "net.sgtr")
    sign("root", "a")
    text = "root version 1: 1 of the 2 keys of its own root; targets version 1: 1 of 1 keys ('tuf sign')"
    refused(text, "publish", "repo", "--signing-key", "online.pem")
    assert not list(Path("repo/metadata").iterdir())


@pytest.mark.usefixtures("repo")
def test_who_does_not_sign() -> None:
    refused("does not sign snapshot", "publish", "repo", "--signing-key", "lists.pem")
    refused("nothing of root is staged", "sign", "repo", "root", "--signing-key", "a.pem")
    tuf("add", "net.sgtr")
    refused("does not sign targets", "sign", "repo", "targets", "--signing-key", "a.pem")
    words = ("publish", "repo", "--public-key", "a.pub.pem", "--to-be-signed")
    refused("this signs two documents", *words)
    refused(
        "-o and --to-be-signed require each other",
        "sign",
        "repo",
        "targets",
        "--signing-key",
        "lists.pem",
        "-o",
        "x",
    )


@pytest.mark.usefixtures("repo")
def test_what_is_no_target() -> None:
    Path("net.gtr").write_bytes(s.trace().build())
    Path("a b").write_bytes(b"x")
    Path("cut.sgtr").write_bytes(NET[:-1])
    Path("cut.gtp").write_bytes(FLEET[:-1])
    refused("net.gtr: a trace that is not signed", "add", "repo", "net.gtr")
    refused("as a target's name expected letters", "add", "repo", "a b")
    refused("cut.sgtr at offset", "add", "repo", "cut.sgtr")
    refused("cut.gtp at offset", "add", "repo", "cut.gtp")
    refused("none.sgtr", "add", "repo", "none.sgtr")
    refused("expected FILES", "add", "repo")
    Path("more").mkdir()
    Path("more/net.sgtr").write_bytes(NEWER)
    refused("net.sgtr: two files of this name", "add", "repo", "net.sgtr", "more/net.sgtr")
    refused("--root-threshold is of the keys that --root names", "keys", "repo", "--root-threshold", "2")
    refused("other: no target; they are: ", "remove", "repo", "other")
    assert not tuf("show")["targets"]["staged"]


def test_a_policy_without_signatures() -> None:
    words = ("--root", "a.pub.pem", "--trace-key", "b.pub.pem", "-o", "new.gtp")
    run("policy", "init", "fleet", *words)
    tuf("init", *INIT)
    refused("new.gtp: version 1 of the trust policy lacks signatures", "add", "repo", "new.gtp")


def test_what_cannot_be_begun() -> None:
    refused("root: expected at least 2 keys, found 1", "init", "repo", *INIT[2:])
    assert not Path("repo").exists()
    refused("TUF's metadata always expires", "init", "repo", *INIT, "--expires", "never")
    Path("repo").mkdir()
    refused("repo: exists", "init", "repo", *INIT)
    for command, *words in (
        ["show"],
        ["add", "net.sgtr"],
        ["remove", "x"],
        ["keys"],
        ["sign", "root"],
        ["publish"],
    ):
        signer = ["--signing-key", "online.pem"] if command in ("sign", "publish") else []
        refused(
            "repo: no TUF repository ('gramophone publish tuf init' begins one)", command, "repo", *words, *signer
        )


def _json(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        found = json.loads(data)
        change(found)
        return json.dumps(found).encode()

    return changed


def _with_key(data: dict[str, Any], change: Callable[[dict[str, Any], list[str]], object]) -> None:
    """Change a root's keys, by the ids of those that sign roots."""
    change(data["signed"]["keys"], data["signed"]["roles"]["root"]["keyids"])


MALFORMED: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "empty": ("metadata/timestamp.json", lambda data: b"", "not TUF metadata"),
    "not JSON": ("metadata/1.root.json", lambda data: b"{", "not TUF metadata"),
    "not text": ("metadata/1.root.json", lambda data: b"\xff", "not TUF metadata"),
    "a list": ("metadata/1.root.json", lambda data: b"[]", "not TUF metadata"),
    "cut": ("metadata/1.targets.json", lambda data: data[:-9], "not TUF metadata"),
    "deep": ("metadata/1.root.json", lambda data: b"[" * 100_000, "not TUF metadata"),
    "no signed part": ("metadata/1.root.json", _json(lambda data: data.pop("signed")), "not TUF metadata"),
    "no expiry": ("metadata/1.root.json", _json(lambda data: data["signed"].pop("expires")), "not TUF metadata"),
    "an expiry of words": (
        "metadata/1.targets.json",
        _json(lambda data: data["signed"].update(expires="soon")),
        "not TUF metadata",
    ),
    "version 0": ("metadata/1.targets.json", _json(lambda data: data["signed"].update(version=0)), "not TUF"),
    "another version": (
        "metadata/1.targets.json",
        _json(lambda data: data["signed"].update(version=7)),
        "version: expected that of its name, found 7",
    ),
    "another role": (
        "metadata/1.targets.json",
        lambda data: Path("repo/metadata/1.root.json").read_bytes(),
        "expected metadata of targets, found root",
    ),
    "a threshold of none": (
        "metadata/1.root.json",
        _json(lambda data: data["signed"]["roles"]["root"].update(threshold=0)),
        "not TUF metadata",
    ),
    "a key under another one's id": (
        "metadata/1.root.json",
        _json(lambda data: _with_key(data, lambda keys, ids: keys.update({ids[0]: keys[ids[1]]}))),
        "id of a key: expected ",
    ),
    "a key under two ids": (
        "metadata/1.root.json",
        _json(lambda data: _with_key(data, lambda keys, ids: keys.update({"0" * 64: keys[ids[0]]}))),
        f"found {'0' * 64}",
    ),
    "a key that is none": (
        "metadata/1.root.json",
        _json(lambda data: _with_key(data, lambda keys, ids: keys[ids[0]]["keyval"].update(public="x"))),
        "expected one that traces can have",
    ),
    "a role less": (
        "metadata/1.root.json",
        _json(lambda data: data["signed"]["roles"].pop("targets")),
        "not TUF metadata",
    ),
    "a target without a hash": (
        "metadata/1.targets.json",
        _json(lambda data: data["signed"]["targets"]["net.sgtr"].update(hashes={})),
        "not TUF metadata",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.usefixtures("repo")
def test_malformed_metadata(name: str) -> None:
    file, change, text = MALFORMED[name]
    path = Path("repo", file)
    path.write_bytes(change(path.read_bytes()))
    found = run("publish", "tuf", "show", "repo", status=2)
    assert f"repo/{file}: " in found.stderr
    assert text in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.usefixtures("repo")
def test_what_clients_would_refuse_is_not_published() -> None:
    """Files that were changed behind the command's back."""
    (path,) = Path("repo/targets").glob("*.net.sgtr")
    path.write_bytes(NEWER)
    before = sorted(Path("repo/metadata").iterdir())
    refused("repo: clients would refuse it", "publish", "repo", "--signing-key", "online.pem")
    path.write_bytes(NET)
    root = Path("repo/metadata/1.root.json")
    root.write_bytes(_json(_longer)(root.read_bytes()))
    refused("repo: clients would refuse it", "publish", "repo", "--signing-key", "online.pem")
    assert sorted(Path("repo/metadata").iterdir()) == before
