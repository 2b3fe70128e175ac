# SPDX-License-Identifier: BSD-2-Clause
"""Debian packages of any suite and architecture, without touching the system's own apt.

Each `AptRoot` is a private apt configuration: its own source list, indexes, status file and archive, in the
user's cache folder. apt itself resolves dependencies, checks signatures (Debian's archive keyring) and hashes.
The archive is a mirror of Debian's (mirror.py), or that of a date (snapshot.py).
"""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cmp_to_key
from pathlib import Path
from urllib.parse import unquote

from host_tools.machine import snapshot
from host_tools.machine.errors import RecordError
from host_tools.machine.mirror import MIRROR, mirror_uri
from host_tools.machine.tested import say_if_other
from host_tools.support.cache import cache_dir, locked
from host_tools.support.progress import download
from trace_format.files import open_regular

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# On the command line, because apt reads the machine's own /etc/apt/apt.conf.d after a private configuration: what
# administrators allow for a mirror of their own is not allowed here.
SIGNED = tuple(
    word
    for option in (
        "APT::Get::AllowUnauthenticated",
        "Acquire::AllowInsecureRepositories",
        "Acquire::AllowWeakRepositories",
        "Acquire::AllowDowngradeToInsecureRepositories",
    )
    for word in ("-o", f"{option}=false")
)
DAY_S = 86400  # older indexes are fetched again when they lack what is looked for


@dataclass(frozen=True)
class Deb:
    """One package file: what apt chose, and its content's hash."""

    name: str
    version: str
    architecture: str
    path: Path
    size: int
    sha256: str


class AptRoot:
    """Packages of one suite and architecture under a private apt configuration.

    Args:
        suite: Debian suite by name, for example "trixie".
        arch: Debian architecture, for example "arm64"; "all" for sources alone: no index of packages is fetched.
        name: names the folder in the cache; roots with the same name share their downloads.
        purpose: what its packages are for; with it errors begin.
        assume: packages taken as present, with whatever they alone would pull in (a compiler library of which
            no needed file is a user, say). Something that does need them fails later, loudly, at its ELF closure.
        stamp: name of a snapshot of the archive, instead of the machine's own mirror.
        component: of the archive.
    """

    def __init__(
        self,
        suite: str,
        arch: str,
        name: str,
        purpose: str = "packages of the machine for recordings",
        assume: Iterable[str] = (),
        stamp: str = "",
        component: str = "main",
    ) -> None:
        self.component = component
        self.suite, self.arch, self.purpose, self.stamp = suite, arch, purpose, stamp
        if not KEYRING.is_file():
            raise RecordError(f"{purpose}: {KEYRING} is missing: apt-get install debian-archive-keyring")
        self.folder = cache_dir("apt", "-".join(filter(None, (name, suite, arch, stamp))))
        self.debs: list[Deb] = []
        self._config = self.folder / "apt.conf"
        self._lock = self.folder / "in-use"
        for part in ("lists/partial", "cache/archives/partial", "debs", "partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.uri = snapshot.uri(stamp) if stamp else mirror_uri()
        with locked(self._lock):
            self._write_config(assume)

    def _write_config(self, assume: Iterable[str]) -> None:
        types = "deb-src" if self.arch == "all" else "deb deb-src"
        text = f"Types: {types}\nURIs: {self.uri}\nSuites: {self.suite}\n"
        text += f"Components: {self.component}\nSigned-By: {KEYRING}\n"
        if self.stamp:
            text += "Check-Valid-Until: no\n"  # an index is valid for a week or so
        (self.folder / "mirror.sources").write_text(text, encoding="utf-8")
        (self.folder / "status").write_text(
            "".join(
                f"Package: {package}\nStatus: install ok installed\nArchitecture: {self.arch}\nMulti-Arch: same\n"
                f"Version: 99999:0\nMaintainer: none\nDescription: taken as present\n\n"
                for package in sorted(assume)
            ),
            encoding="utf-8",
        )
        self._config.write_text(apt_config(self.folder, self.arch), encoding="utf-8")

    def update(self) -> None:
        """Fetch the suite's package indexes."""
        with locked(self._lock):
            self._update()

    def _update(self) -> None:
        # Without the error mode, an index that could not be fetched is only a warning.
        self._run(["apt-get", "update", "-q", "-o", "Acquire::Retries=3", "-o", "APT::Update::Error-Mode=any"])

    def download(self, names: Iterable[str]) -> list[Deb]:
        """Fetch packages and everything they depend on (no recommendations); finished files are kept and reused.

        Returns:
            The packages, sorted by name; also added to `self.debs`.

        Raises:
            RecordError: unknown package, no network, or a file whose hash is not that of the signed index.
        """
        names = list(names)
        with locked(self._lock):
            if not any((self.folder / "lists").glob("*_Packages*")):
                self._update()
            try:
                debs = self._fetch(names)
            except RecordError:
                # An index older than the last point release names files that are gone: refresh once.
                self._update()
                debs = self._fetch(names)
        for deb in debs:
            say_if_other(deb.name, deb.version)
        self.debs = sorted({*self.debs, *debs}, key=lambda deb: deb.name)
        return debs

    def _fetch(self, names: list[str]) -> list[Deb]:
        if self.stamp:
            snapshot.check_index(self.folder / "lists", self.stamp)
        plan = parse_uris(
            self._run(
                ["apt-get", "install", "-y", "-q", "--print-uris", "-o", "Acquire::ForceHash=SHA256", *names]
            )
        )
        wanted = [Deb(*item[:3], self.folder / "debs" / item[3], *item[4:]) for item in plan]
        missing = [deb for deb in wanted if not _is_whole(deb, deb.path)]
        if missing:
            self._download_missing(missing)
        return sorted(wanted, key=lambda deb: deb.name)

    def _download_missing(self, missing: list[Deb]) -> None:
        partial = self.folder / "partial"
        collect(missing, partial)  # what an interrupted run had finished
        left = [deb for deb in missing if not deb.path.exists()]
        if not left:
            return
        command = [
            "apt-get",
            "download",
            "-q",
            "-o",
            "Acquire::Retries=3",
            *(f"{d.name}={d.version}" for d in left),
        ]
        with download(
            f"{len(left)} packages of {self.suite}",
            sum(deb.size for deb in left),
            lambda: sum(_size(partial / deb.path.name) for deb in left),
        ) as poll:
            self._run(command, cwd=partial, poll=poll)
        collect(left, partial)
        for deb in left:
            if not deb.path.exists():
                raise RecordError(
                    f"{deb.path.name}: downloaded file is not what the index says (sha256 {deb.sha256})"
                )

    def extract(self, directory: Path, keep: Callable[[str], bool] = lambda path: True) -> None:
        """Unpack the downloaded packages into `directory` (made when missing), as `dpkg -x` does.

        Args:
            directory: becomes the root of the file tree.
            keep: called with each path, relative to the root, without a leading "./"; False leaves it out.
        """
        directory.mkdir(parents=True, exist_ok=True)
        for deb in self.debs:
            with subprocess.Popen(
                ["dpkg-deb", "--fsys-tarfile", str(deb.path)], stdout=subprocess.PIPE
            ) as process:
                assert process.stdout is not None
                with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                    for member in tar:
                        path = member.name.removeprefix("./")
                        if keep(path) and not member.isdev():
                            _extract_member(tar, member, directory, path)
            if process.returncode:
                raise RecordError(f"{deb.path}: dpkg-deb failed with status {process.returncode}")

    def source_version(self, name: str, wanted: str) -> str:
        """The version to take of a source: `wanted` if the suite has it, else the newest that it has.

        Raises:
            RecordError: unknown source, or no network.
        """
        with locked(self._lock):
            age = self._sources_age_s()
            if age is None:
                self._update()  # without an index apt-cache has no answer
            found = self._source_versions(name)
            # An index that lacks the source altogether is of another archive.
            if wanted not in found and age is not None and (age > DAY_S or not found):
                with suppress(RecordError):  # no network: what the old index says
                    self._update()
                found = self._source_versions(name)
        if not found:
            raise RecordError(f"{self.purpose}: {self.suite} has no source package {name}")
        return wanted if wanted in found else max(found, key=cmp_to_key(_compare_versions))

    def _source_versions(self, name: str) -> list[str]:
        text = self._run(["apt-cache", "showsrc", "--only-source", name])
        return re.findall(r"^Version: (\S+)$", text, re.MULTILINE)

    def _sources_age_s(self) -> float | None:
        """Age of the index of sources; None when there is none."""
        times = [file.stat().st_mtime for file in (self.folder / "lists").glob("*_Sources*")]
        return time.time() - min(times) if times else None

    def source(self, name: str, version: str, directory: Path) -> Path:
        """Fetch and unpack the Debian source of package `name` under `directory`.

        Returns:
            The unpacked source tree.

        Raises:
            RecordError: unknown source or version, no network, or dpkg-dev is missing.
        """
        if shutil.which("dpkg-source") is None:
            raise RecordError(f"{self.purpose}: dpkg-source is missing: apt-get install dpkg-dev")
        with locked(self._lock):
            self._run(["apt-get", "source", "-q", "-o", "Acquire::Retries=3", f"{name}={version}"], cwd=directory)
        trees = [path for path in directory.iterdir() if path.is_dir()]
        if len(trees) != 1:
            raise RecordError(f"source of {name}: expected one new tree in {directory}, found {len(trees)}")
        return trees[0]

    def _run(self, command: list[str], cwd: Path | None = None, poll: Callable[[], None] = lambda: None) -> str:
        """Run an apt program under this configuration; its standard output."""
        name, command = " ".join(command[:2]), [*command[:2], *SIGNED, *command[2:]]
        environment = os.environ | {
            "APT_CONFIG": str(self._config),
            "LC_ALL": "C",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        output = self.folder / "apt.log"
        try:
            with output.open("w+", encoding="utf-8", errors="replace") as log:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                )
                try:
                    while process.poll() is None:
                        poll()
                        time.sleep(0.1)
                finally:
                    process.terminate()  # when interrupted; no effect on one that has ended
                    process.wait()
                log.seek(0)
                text = log.read()
        except FileNotFoundError as error:
            raise RecordError(
                f"{self.purpose}: {command[0]} is missing, by which packages are taken from Debian's archive"
            ) from error
        if process.returncode:
            lines = [line for line in text.splitlines() if line.startswith(("E:", "W:"))] or text.splitlines()[-3:]
            other = "--snapshot names another date" if self.stamp else f"${MIRROR} names another archive"
            where = f"suite {self.suite} for {self.arch} of {self.uri} ({other})"
            raise RecordError(f"{self.purpose}: {name} failed, {where}: {'; '.join(lines)}")
        return text


def apt_config(folder: Path, arch: str) -> str:
    """The private configuration file: every path that apt would read or write system-wide lies in `folder`."""
    return f"""APT::Architecture "{arch}";
#clear APT::Architectures;
APT::Architectures {{ "{arch}"; }};
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
APT::Sandbox::User "root";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Dir::Etc::SourceList "{folder}/mirror.sources";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "{folder}";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::State::extended_states "{folder}/extended_states";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}";
"""


def parse_uris(text: str) -> list[tuple[str, str, str, str, int, str]]:
    """Parse `apt-get --print-uris`: (name, version, architecture, file name, bytes, sha256) of each package.

    Raises:
        RecordError: a line that is a package but has no SHA-256.
    """
    found = []
    for line in text.splitlines():
        if not line.startswith("'"):
            continue
        match = re.fullmatch(r"'[^']+' (([^_ ]+)_([^_ ]+)_([^_ ]+)\.deb) (\d+) SHA256:([0-9a-f]{64})\s*", line)
        if match is None:
            raise RecordError(f"apt-get --print-uris: expected 'URI' FILE BYTES SHA256:HASH, found: {line}")
        file, name, version, arch, size, sha256 = match.groups()
        found.append((name, unquote(version), arch, file, int(size), sha256))
    return found


def collect(debs: Iterable[Deb], partial: Path) -> None:
    """Move the files in `partial` that are whole to their place."""
    for deb in debs:
        if _is_whole(deb, partial / deb.path.name):
            os.replace(partial / deb.path.name, deb.path)


def _compare_versions(first: str, second: str) -> int:
    """As Debian orders them (deb-version(7))."""
    return 1 if subprocess.run(["dpkg", "--compare-versions", first, "gt", second]).returncode == 0 else -1


def _is_whole(deb: Deb, path: Path) -> bool:
    if _size(path) != deb.size:
        return False
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == deb.sha256


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _extract_member(tar: tarfile.TarFile, member: tarfile.TarInfo, directory: Path, path: str) -> None:
    target = directory / path
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.exists():
        target.unlink()
    tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python before 3.11.4 has no filters
    tar.extract(member, directory, set_attrs=member.isreg())
