# SPDX-License-Identifier: BSD-2-Clause
"""Archives that Debian did not sign, and files that its index does not name: refused, also where the machine's own
apt allows them. The archive is on loopback, with a key of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host_tools.machine import apt
from host_tools.machine.errors import RecordError
from tests.support.debian_archive import Signer, require_tools, served, signer, write

DATE, DIST = "Fri, 31 Oct 2025 20:12:13", Path("dists/trixie")
# What administrators write into /etc/apt/apt.conf.d for a mirror of their own.
WEAK = """\
APT::Get::AllowUnauthenticated "true";
Acquire::AllowInsecureRepositories "true";
Acquire::AllowWeakRepositories "true";
Acquire::AllowDowngradeToInsecureRepositories "true";
Acquire::Check-Valid-Until "false";
"""


def unsigned(folder: Path, _: Signer) -> None:
    text = (folder / DIST / "InRelease").read_text()
    (folder / DIST / "Release").write_text(text.split("\n\n", 1)[1].split("-----BEGIN")[0])
    (folder / DIST / "InRelease").unlink()


def of_another_key(folder: Path, other: Signer) -> None:
    write(folder, other, DATE, {"x": "6.6-6"})


def another_index(folder: Path, _: Signer) -> None:
    index = folder / DIST / "main/binary-arm64/Packages"
    index.write_text(index.read_text().replace("Version: 1.0-1", "Version: 6.6-6"))


def another_package(folder: Path, _: Signer) -> None:
    deb = next((folder / "pool").glob("x_*.deb"))
    deb.write_bytes(deb.read_bytes().replace(b"debian-binary", b"debian-bin_ry"))


ATTACKS: dict[str, Callable[[Path, Signer], None]] = {
    "unsigned": unsigned,
    "of another key": of_another_key,
    "another index": another_index,
    "another package": another_package,
}


@pytest.fixture(params=["", WEAK], ids=["as it comes", "weak"])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A good one, on a machine whose own apt has these settings."""
    require_tools()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/99own").write_text(request.param + 'Acquire::Check-Valid-Until "false";\n')
    config = apt.apt_config
    own = f'Dir::Etc::parts "{tmp_path}/parts";\nDir::Etc::main "/dev/null";\n'
    monkeypatch.setattr(apt, "apt_config", lambda *args: config(*args) + own)
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "keyring.gpg")
    with signer() as key:
        (tmp_path / "keyring.gpg").write_bytes(key.gpg("--export"))
        write(tmp_path / "served", key, DATE, {"x": "1.0-1"})
    with served(tmp_path / "served", {}) as (address, _):
        monkeypatch.setattr(apt, "mirror_uri", lambda: address)
        yield tmp_path / "served"


def test_a_good_one_is_taken(archive: Path) -> None:
    (deb,) = apt.AptRoot("trixie", "arm64", "test").download(["x"])
    assert (deb.name, deb.version) == ("x", "1.0-1")


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_one_is_refused(attack: str, archive: Path) -> None:
    with signer() as other:
        ATTACKS[attack](archive, other)
    root = apt.AptRoot("trixie", "arm64", "test")
    with pytest.raises(RecordError):
        root.download(["x"])
    assert not list(root.folder.glob("debs/*")), "nothing of it is kept"
