# SPDX-License-Identifier: BSD-2-Clause
"""Small signed Debian archives on loopback: packages and indexes, redirected as snapshot.debian.org does."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.loopback import serving

NEEDED = {"apt-get": "apt", "dpkg-deb": "dpkg", "gpg": "gpg", "gpg-agent": "gpg-agent", "gpgv": "gpgv"}


def require_tools() -> None:
    """Skip without what makes such an archive, or reads it."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if missing:
        pytest.skip(f"missing: apt-get install {' '.join(missing)}")


class Signer:
    """A key of the archive's, in a folder of its own: the socket of gpg's agent needs a short path."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.gpg("--quick-generate-key", "archive", "ed25519", "sign", "never")

    def gpg(self, *args: str, text: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--passphrase", "", *args]
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout


@contextmanager
def signer() -> Iterator[Signer]:
    """A signer, whose agent ends with it."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="gpg-") as name:
        try:
            yield Signer(Path(name))
        finally:
            subprocess.run(["gpgconf", "--homedir", name, "--kill", "all"], check=False)


def write(folder: Path, key: Signer, date: str, packages: dict[str, str], suite: str = "trixie") -> None:
    """An archive whose index was valid for a day.

    Args:
        folder: its root.
        date: of the index, as "Sat, 01 Nov 2025 00:00:00".
        packages: name -> version, all for arm64.
    """
    index = ""
    for name, version in packages.items():
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: arm64\nMaintainer: none\nDescription: a test\n"
        )
        deb = _deb(folder, name, version, control)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        index += f"{control}Filename: {deb.relative_to(folder)}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n\n"
    dist = folder / "dists" / suite
    files = {"main/binary-arm64/Packages": index, "main/source/Sources": ""}
    sums = ""
    for path, text in files.items():
        (dist / path).parent.mkdir(parents=True, exist_ok=True)
        (dist / path).write_text(text)
        sums += f" {hashlib.sha256(text.encode()).hexdigest()} {len(text)} {path}\n"
    release = (
        f"Origin: test\nSuite: {suite}\nCodename: {suite}\nDate: {date} UTC\n"
        f"Valid-Until: {date[:-8]}23:59:59 UTC\n"
        f"Architectures: arm64\nComponents: main\nSHA256:\n{sums}"
    )
    (dist / "InRelease").write_bytes(key.gpg("--clearsign", text=release.encode()))


def _deb(folder: Path, name: str, version: str, control: str) -> Path:
    pool = folder / "pool"
    pool.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as tree:
        (Path(tree) / "DEBIAN").mkdir(mode=0o755)
        Path(tree).chmod(0o755)
        (Path(tree) / "DEBIAN" / "control").write_text(control)
        (Path(tree) / "version").write_text(version)
        path = pool / f"{name}_{version}_arm64.deb"
        subprocess.run(
            ["dpkg-deb", "--build", "--root-owner-group", tree, str(path)], check=True, capture_output=True
        )
    return path


@contextmanager
def served(folder: Path, redirects: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder on loopback.

    Args:
        folder: what is served.
        redirects: beginnings of paths -> what stands there instead.

    Returns:
        The address, and the paths that were asked for.
    """
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            asked.append(self.path)
            for start, other in redirects.items():
                if self.path.startswith(start):
                    self.send_response(302)
                    self.send_header("Location", other + self.path.removeprefix(start))
                    self.end_headers()
                    return
            super().do_GET()

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as address:
        yield f"http://{address}", asked
