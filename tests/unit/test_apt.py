# SPDX-License-Identifier: BSD-2-Clause
"""Private apt configurations: which mirror, which paths, what apt answers. No network."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from host_tools.machine import apt
from host_tools.machine.errors import RecordError

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
    assert apt.mirror_uri(etc(tmp_path, files)) == MIRROR


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"sources.list": ""},
        {"sources.list": "deb http://vendor.example nodistro main\n"},
        {"sources.list": f"deb {MIRROR} bookworm contrib\n"},
        {"sources.list": f"# deb {MIRROR} bookworm main\n"},
        {"sources.list.d/debian.list.disabled": f"deb {MIRROR} bookworm main\n#"[:3]},
    ],
    ids=["none", "empty", "third party", "no main", "commented out", "not a source"],
)
def test_no_debian_archive_is_a_clear_error(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(RecordError, match="no Debian archive among this machine's apt sources"):
        apt.mirror_uri(etc(tmp_path, files))


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
