# SPDX-License-Identifier: BSD-2-Clause
"""Sources of Debian packages: which version is taken, what is kept, what is said. No network."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

import pytest

from host_tools.machine import apt, sources
from host_tools.machine.errors import RecordError
from host_tools.machine.tested import TESTED, say_if_other
from host_tools.runners import libraries
from tee_replayer import crypto
from tee_replayer.crypto import hashes
from tee_replayer.generator.evidence import Evidence
from tests.support import crypto_trees
from trace_format.errors import GramophoneError
from trace_format.schema.trust import KeyKind

PACKAGE = "bearssl"
WANTED = TESTED[PACKAGE]
AWS_LC = "rust-aws-lc-sys"
STANZA = "Package: bearssl\nBinary: libbearssl0\nVersion: {}\nPackage-List:\n libbearssl0 deb\n\n"


class Archive(apt.AptRoot):
    """A private apt whose programs answer from two lists: what the index says, and what a new index would say."""

    now: tuple[str, ...] = ()
    later: tuple[str, ...] | None = ()
    asked: list[str]

    def __init__(self, *arguments: object, stamp: str = "") -> None:
        super().__init__("sid", "all", "test", str(arguments[-1]) if arguments else "a test", stamp=stamp)

    def _run(self, command: list[str], cwd: Path | None = None, poll: object = None) -> str:
        self.asked.append(command[1])
        if command[1] == "update":
            if self.later is None:
                raise RecordError("no network")
            type(self).now = self.later
            (self.folder / "lists" / "mirror_Sources").touch()
        elif not list((self.folder / "lists").glob("*_Sources")):
            raise RecordError("You must put some 'deb-src' URIs in your sources.list")  # as apt's programs do
        elif command[1] == "source":
            assert cwd is not None
            (cwd / "bearssl-0.6").mkdir()
            (cwd / "bearssl_0.6.dsc").touch()
        return "".join(STANZA.format(version) for version in self.now)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Archive]:
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.setattr(apt, "KEYRING", keyring)
    monkeypatch.setattr(apt, "mirror_uri", lambda: "http://mirror.example/debian")
    fake = type("Fake", (Archive,), {"asked": []})
    monkeypatch.setattr(sources, "AptRoot", fake)
    sources.source.cache_clear()
    say_if_other.cache_clear()
    return fake


def fetched() -> str:
    """Version of the tree that a new process would get."""
    sources.source.cache_clear()
    tree = sources.source(PACKAGE, "sid", "for a test")
    assert tree.is_dir()
    assert [path.name for path in tree.parent.iterdir() if path.name.startswith("tmp")] == []
    return tree.name


def index(archive: type[Archive], age_s: float) -> None:
    """An index file of that age."""
    file = archive().folder / "lists" / "mirror_Sources"
    file.touch()
    os.utime(file, (time.time() - age_s,) * 2)


def test_the_tested_version_is_fetched_once(archive: type[Archive], caplog: pytest.LogCaptureFixture) -> None:
    archive.later = ("9.9-1", WANTED, "0.1-1")
    assert fetched() == WANTED
    assert archive.asked == ["update", "showsrc", "source"]
    assert fetched() == WANTED
    assert len(archive.asked) == 3
    assert caplog.messages == []


def test_an_old_index_that_has_it_will_do(archive: type[Archive]) -> None:
    archive.now = (WANTED,)
    index(archive, 100 * apt.DAY_S)
    assert fetched() == WANTED
    assert archive.asked == ["showsrc", "source"]


@pytest.mark.parametrize(
    ("versions", "newest"),
    [(("0.7-1",), "0.7-1"), (("0.7-9", "0.7-10", "0.7~rc1-1"), "0.7-10"), (("9.9-1", "1:0.1-1"), "1:0.1-1")],
    ids=["one", "several", "epoch"],
)
def test_the_newest_where_the_tested_version_is_gone(
    versions: tuple[str, ...], newest: str, archive: type[Archive], caplog: pytest.LogCaptureFixture
) -> None:
    """In words, once a process, also when the tree is there already; a fresh index is not fetched again."""
    archive.now = archive.later = versions
    assert fetched() == newest
    index(archive, 60)
    archive.asked.clear()
    assert fetched() == newest
    assert archive.asked == ["showsrc"]
    assert caplog.messages == [f"warning: bearssl {newest} is taken from the archive; {WANTED} was tested"]


def test_a_new_index_that_lacks_the_source_is_of_another_archive(archive: type[Archive]) -> None:
    archive.later = (WANTED,)
    index(archive, 60)
    assert fetched() == WANTED


def test_without_network_the_old_index_will_do(archive: type[Archive]) -> None:
    archive.now, archive.later = ("0.7-1",), None
    index(archive, 2 * apt.DAY_S)
    assert fetched() == "0.7-1"


def test_neither_network_nor_index(archive: type[Archive]) -> None:
    archive.later = None
    with pytest.raises(RecordError, match="no network"):
        fetched()


def test_a_suite_without_the_package(archive: type[Archive]) -> None:
    with pytest.raises(RecordError, match=r"^source of bearssl, for a test: sid has no source package bearssl"):
        fetched()


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    sources.source.cache_clear()
    with pytest.raises(
        GramophoneError, match=r"file/gramophone.*: cannot be made \(Not a directory\); XDG_CACHE_HOME"
    ):
        sources.source(PACKAGE, "sid", "for a test")


def test_without_network_the_crypto_libraries_can_be_given(archive: type[Archive], tmp_path: Path) -> None:
    archive.later = None
    given = crypto_trees.empty(tmp_path)
    bearssl, aws_lc = given.bearssl, given.aws_lc
    assert aws_lc is not None
    for option, missing in (("--bearssl", (None, aws_lc)), ("--aws-lc", (bearssl, None))):
        with pytest.raises(RecordError) as caught:
            libraries.source(*missing)
        assert str(caught.value) == f"no network; {option} DIR takes a source tree that is there"
    assert libraries.source(bearssl, aws_lc) == given
    unknown = "of unknown version (unverified)"
    assert given.versions == {"BearSSL": unknown, "AWS-LC": unknown}
    (aws_lc / crypto.s2n_sources("arm")[0]).unlink()
    with pytest.raises(GramophoneError, match=f"{aws_lc}: not a source tree of aws-lc-sys: expected aws-lc/third"):
        libraries.source(bearssl, aws_lc)
    (bearssl / crypto.HASH[0]).unlink()
    with pytest.raises(GramophoneError, match=f"{bearssl}: not a BearSSL source tree: expected {crypto.HASH[0]}"):
        libraries.source(bearssl, aws_lc)


def tree(package: str, version: str, folder: Path) -> Path:
    """A stand-in for a package's source of a version."""
    made = crypto_trees.empty(folder / version)
    (made.bearssl / "debian").mkdir()
    assert made.aws_lc is not None
    (made.aws_lc / "debian").mkdir()
    found = made.bearssl if package == "bearssl" else made.aws_lc
    (found / "debian" / "changelog").write_text(f"{package} ({version}) unstable\n")
    return found.rename(folder / version / version)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Path | None]:
    """(package, snapshot) -> the tree that is fetched from there; None: it cannot be."""
    found: dict[tuple[str, str], Path | None] = {
        ("bearssl", ""): tree("bearssl", WANTED, tmp_path / "bearssl"),
        (AWS_LC, ""): tree(AWS_LC, TESTED[AWS_LC], tmp_path / "aws"),
    }
    right = {}
    for name, folder in (("bearssl", found["bearssl", ""]), ("aws-lc", found[AWS_LC, ""])):
        assert folder is not None
        right[name] = hashes.found(name, folder, ())

    def fetched(package: str, suite: str, purpose: str, stamp: str = "") -> Path:
        there = found.get((package, stamp))
        if there is None:
            raise RecordError("no network")
        return there

    monkeypatch.setattr(hashes, "known", right.__getitem__)
    monkeypatch.delenv(crypto.ACCEPT, raising=False)
    monkeypatch.setattr(sources, "source", fetched)
    return found


def test_a_file_that_was_changed_in_the_cache_is_refused(
    cached: dict[tuple[str, str], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file, both hashes, and what accepts it; and what is made of it says so."""
    aws_lc = cached[AWS_LC, ""]
    assert aws_lc is not None
    assert libraries.source().versions == {"BearSSL": WANTED, "AWS-LC": TESTED[AWS_LC]}
    name = crypto.s2n_sources("arm")[0]
    right = hashes.known("aws-lc")[name]
    (aws_lc / name).write_bytes((aws_lc / name).read_bytes() + b"\n")
    wrong = hashlib.sha256((aws_lc / name).read_bytes()).hexdigest()
    with pytest.raises(GramophoneError, match=f"{name}: SHA-256: expected {right}, found {wrong}; ") as caught:
        libraries.source()
    accepted = re.search(rf"{crypto.ACCEPT}=([0-9a-f]{{64}}) takes all", str(caught.value))
    assert accepted is not None
    monkeypatch.setenv(crypto.ACCEPT, f"{'0' * 64}, {accepted[1]}")
    assert libraries.source().versions["AWS-LC"] == f"{TESTED[AWS_LC]} (unverified)"
    (aws_lc / name).write_bytes(b"more")  # that is another file again
    with pytest.raises(GramophoneError, match=crypto.ACCEPT):
        libraries.source()


@pytest.mark.parametrize("folder", ["inc", "src"])
def test_a_header_that_compilers_would_find_first(folder: str, cached: dict[tuple[str, str], Path | None]) -> None:
    bearssl = cached["bearssl", ""]
    assert bearssl is not None
    (bearssl / folder / "string.h").write_text("#define memcmp(a, b, n) 0\n")
    with pytest.raises(
        GramophoneError, match=f"{folder}/string.h: SHA-256: expected no file, found [0-9a-f]{{64}};"
    ):
        libraries.source()


def test_a_newer_version_with_the_same_files_will_do(
    tmp_path: Path, cached: dict[tuple[str, str], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = cached[AWS_LC, ""] = tree(AWS_LC, "9.9-1", tmp_path / "aws")
    monkeypatch.delenv(crypto.ACCEPT)
    assert libraries.source().aws_lc == newer


def test_a_newer_version_with_other_files(
    tmp_path: Path, cached: dict[tuple[str, str], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tested one is taken from the archive's snapshot; without that, both reasons are said."""
    tested, newer = cached[AWS_LC, ""], tree(AWS_LC, "9.9-1", tmp_path / "aws")
    cached[AWS_LC, ""] = newer
    (newer / crypto.AWS_LC_HASH).write_bytes(b"newer")
    monkeypatch.delenv(crypto.ACCEPT)
    with pytest.raises(GramophoneError, match=r"sha256-armv8.S: SHA-256: .*; the tested version .*: no network"):
        libraries.source()
    cached[AWS_LC, libraries.AWS_LC.snapshot] = tested
    assert libraries.source().aws_lc == tested


def test_the_hashes_are_of_all_that_is_used() -> None:
    """Each file that a device or this machine links or includes has one."""
    machines = ("arm", "x86_att")
    every = tuple(KeyKind)
    s2n = [name for each in machines for name in (*crypto.s2n_sources(each, every), *crypto.s2n_headers(each))]
    s2n += [name for each in machines for name in crypto.aes_sources(each)]
    assert {
        *s2n,
        *crypto.ML_DSA_INCLUDED,
        crypto.AWS_LC_HASH,
        *crypto.AWS_LC_ASSEMBLY_HEADERS,
    } <= {*hashes.known("aws-lc")}
    own = {
        *crypto.HASH,
        *crypto.SHA512,
        *crypto.VERIFICATION,
        *crypto.INCLUDED,
        *crypto.HEADERS,
        *Evidence(True, True, True).crypto,
    }
    assert own <= {*hashes.known("bearssl")}
