# SPDX-License-Identifier: BSD-2-Clause
"""Private apt configurations: which mirror, which paths, what apt answers. No network."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from host_tools.machine import apt
from host_tools.machine.errors import RecordError
from host_tools.machine.mirror import mirror_uri

MIRROR = "http://mirror.example/debian"
DEB822 = f"""# a comment
Types: deb
# between the fields
URIs: {MIRROR}/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main
"""


def etc(folder: Path, files: dict[str, str]) -> Path:
    (folder / "sources.list.d").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"sources.list.d/debian.sources": DEB822},
        {"sources.list": f"# old style\ndeb {MIRROR} bookworm main contrib # mirror\n"},
        {"sources.list": f"deb [arch=amd64 signed-by=/k.gpg] {MIRROR} stable main\n"},
        {"sources.list.d/debian.list": f"deb {MIRROR} trixie main\n"},
        {
            "sources.list.d/aaa.list": "deb http://vendor.example/apt cloud-sdk-bookworm main\n",
            "sources.list.d/debian.sources": DEB822,
        },
        {"sources.list": f"deb http://security.example bookworm-security main\ndeb {MIRROR} bookworm main\n"},
        {"sources.list": f"deb-src http://source.example bookworm main\ndeb {MIRROR} bookworm main\n"},
        {
            "sources.list.d/a.sources": DEB822.replace("Types: deb\n#", "Types: deb\nEnabled: no\n#").replace(
                MIRROR, "http://off.example"
            ),
            "sources.list.d/b.sources": DEB822,
        },
        {"sources.list.d/debian.sources": f"Types:\n deb\nURIs:\n {MIRROR}\nSuites: sid\nComponents:\n main\n"},
    ],
    ids=["deb822", "line", "options", "list file", "third party", "security", "source only", "disabled", "folded"],
)
def test_mirror_is_the_machines_own(tmp_path: Path, files: dict[str, str]) -> None:
    assert mirror_uri(etc(tmp_path, files)) == MIRROR


UBUNTU = """Types: deb
URIs: http://archive.ubuntu.com/ubuntu/
Suites: noble noble-updates noble-backports
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
"""


@pytest.mark.parametrize(
    "files",
    [
        {"sources.list.d/ubuntu.sources": UBUNTU},
        {"sources.list": "deb http://archive.ubuntu.com/ubuntu noble main universe\n"},
        {},
        {"sources.list": ""},
        {"sources.list": "deb http://vendor.example nodistro main\n"},
        {"sources.list": f"deb {MIRROR} bookworm contrib\n"},
        {"sources.list": f"# deb {MIRROR} bookworm main\n"},
        {"sources.list.d/debian.list.disabled": f"deb {MIRROR} bookworm main\n#"[:3]},
    ],
    ids=["ubuntu", "ubuntu of old", "none", "empty", "third party", "no main", "commented out", "not a source"],
)
def test_debian_s_own_archive_where_the_machine_has_another(tmp_path: Path, files: dict[str, str]) -> None:
    assert mirror_uri(etc(tmp_path, files)) == "http://deb.debian.org/debian"


def test_a_mirror_of_the_user_s_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMOPHONE_MIRROR", "https://near.example/debian/")
    assert mirror_uri(etc(tmp_path, {"sources.list.d/debian.sources": DEB822})) == "https://near.example/debian"
    for bad in ("near.example", "http://x y", "http://x\nTrusted: yes", "http://x [trusted=yes]"):
        monkeypatch.setenv("GRAMOPHONE_MIRROR", bad)
        with pytest.raises(RecordError, match=r"\$GRAMOPHONE_MIRROR: expected a URI such as http"):
            mirror_uri(tmp_path)


@pytest.mark.parametrize("mirror", [None, "https://near.example/debian"])
def test_on_ubuntu_only_a_private_configuration_names_debian(
    mirror: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its keyring, as the only archive; the system's files stay as they are, and the error says all."""
    system = tmp_path / "etc"
    system.mkdir()
    ours = etc(system, {"sources.list.d/ubuntu.sources": UBUNTU})
    monkeypatch.setattr(mirror_uri, "__defaults__", (ours,))
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "keyring.gpg")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if mirror:
        monkeypatch.setenv("GRAMOPHONE_MIRROR", mirror)
    with pytest.raises(
        RecordError, match=r"^BearSSL: .*keyring.gpg is missing: apt-get install debian-archive-ke"
    ):
        apt.AptRoot("bookworm", "all", "test", "BearSSL")
    (tmp_path / "keyring.gpg").touch()
    root = apt.AptRoot("bookworm", "all", "test", "BearSSL")
    uri = mirror or "http://deb.debian.org/debian"
    assert (root.folder / "mirror.sources").read_text() == (
        f"Types: deb-src\nURIs: {uri}\nSuites: bookworm\nComponents: main\nSigned-By: {tmp_path}/keyring.gpg\n"
    )
    packages = apt.AptRoot("bookworm", "arm64", "test", "BearSSL")
    assert (packages.folder / "mirror.sources").read_text().startswith(f"Types: deb deb-src\nURIs: {uri}\n")
    assert [path.name for path in (system / "sources.list.d").iterdir()] == ["ubuntu.sources"]
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    (fakes / "apt-get").write_text("#!/bin/sh\necho 'E: no network'; exit 100\n")
    (fakes / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fakes}:{os.environ['PATH']}")
    with pytest.raises(RecordError) as caught:
        root.update()
    assert str(caught.value) == (
        f"BearSSL: apt-get update failed, suite bookworm for all of {uri} "
        "($GRAMOPHONE_MIRROR names another archive): E: no network"
    )


def test_configuration_keeps_apt_inside_its_folder(tmp_path: Path) -> None:
    """Asked of apt itself: every path it would read state from or write to."""
    if shutil.which("apt-config") is None:
        pytest.skip("apt is missing: recording needs Debian's package tools")
    config = tmp_path / "apt.conf"
    config.write_text(apt.apt_config(tmp_path, "arm64"))
    keys = [
        "Dir::State/d",
        "Dir::State::lists/d",
        "Dir::State::status/f",
        "Dir::Cache/d",
        "Dir::Cache::archives/d",
        "Dir::Etc::sourcelist/f",
        "Dir::State::extended_states/f",
        "Dir::Log/d",
    ]
    command = ["apt-config", "shell", *(word for i, key in enumerate(keys) for word in (f"K{i}", key))]
    answer = subprocess.run(
        command,
        env={"APT_CONFIG": str(config), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = [line.split("=", 1)[1].strip("'") for line in answer.splitlines()]
    assert len(paths) == len(keys)
    assert all(Path(path).is_relative_to(tmp_path) for path in paths), paths
    dump = subprocess.run(
        ["apt-config", "dump"],
        env={"APT_CONFIG": str(config), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 'APT::Architecture "arm64";' in dump
    assert [line for line in dump.splitlines() if line.startswith("APT::Architectures::")] == [
        'APT::Architectures:: "arm64";'
    ]


SHA = "5" * 64
LINE = f"'http://mirror.example/p/x/x_1.2-3_arm64.deb' x_1%3a1.2-3+b1_arm64.deb 1234 SHA256:{SHA}"


def test_what_apt_would_fetch() -> None:
    text = f"Reading package lists...\nThe following NEW packages will be installed:\n  x\n{LINE} \n"
    assert apt.parse_uris(text) == [("x", "1:1.2-3+b1", "arm64", "x_1%3a1.2-3+b1_arm64.deb", 1234, SHA)]


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("SHA256", "MD5Sum"),
        LINE[:-1],
        LINE.replace(" 1234", ""),
        LINE.replace("_arm64.deb 1", ".deb 1"),
    ],
    ids=["other hash", "short hash", "no size", "no architecture"],
)
def test_malformed_answers_of_apt(line: str) -> None:
    with pytest.raises(RecordError, match="apt-get --print-uris: expected"):
        apt.parse_uris(line)


def test_interrupted_downloads_are_taken_up_and_bad_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "partial").mkdir()
    (tmp_path / "debs").mkdir()
    good, bad = (
        apt.Deb(name, "1", "arm64", tmp_path / "debs" / f"{name}.deb", 5, hashlib.sha256(b"whole").hexdigest())
        for name in ("good", "bad")
    )
    (tmp_path / "partial" / "good.deb").write_bytes(b"whole")
    (tmp_path / "partial" / "bad.deb").write_bytes(b"whola")
    apt.collect([good, bad], tmp_path / "partial")
    assert good.path.read_bytes() == b"whole"
    assert not bad.path.exists()
