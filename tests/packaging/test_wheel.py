# SPDX-License-Identifier: BSD-2-Clause
"""The wheel that `pip wheel .` makes: nothing is missing from it, and it works without the checkout.

The wheel is built from a copy of the tracked files, so that nothing that lies about in the checkout gets in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from host_tools.runners import libraries
from host_tools.support.packages import EXTRAS
from tests.support.places import CHECKOUT
from tests.support.processes import without_progress

VECTORS = CHECKOUT / "tests/unit/signing/vectors"
PACKAGES = ("trace_format", "signing", "host_tools", "tee_replayer", "baremetal")
# Commands that need more than the core's packages, and one that they miss.
MISSING = {
    "record layers": "ncnn",
    "record self-test launch -o {out}": "rich",
    "report {signed} -o {out}": "jinja2",
    "replay {signed} --key {public} --on unicorn": "unicorn",
    "audit-firmware {signed} --key {public}": "capstone",
    "manual -o {out}": "click_man",
}
# What pip says when it finds no package index.
UNREACHABLE = ("No matching distribution found", "Failed to establish a new connection", "Network is unreachable")


def environment() -> dict[str, str]:
    """The environment without what would let Python find the checkout, or pip behave otherwise than for a user."""
    names = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in names}


def pip(*arguments: str | Path, cwd: Path) -> None:
    """Run pip; the test is skipped when there is no package index."""
    command = [sys.executable, "-m", "pip", *map(str, arguments), "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
    if any(words in done.stderr for words in UNREACHABLE):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """Paths of the tracked files, relative to the checkout."""
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip(f"{CHECKOUT} is no checkout of git, which tells what belongs to the project")
    command = ["git", "-C", str(CHECKOUT), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (CHECKOUT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    for name in tracked:
        copy = folder / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, copy)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ".", cwd=folder / "source")
    (found,) = folder.glob("gramophone-*.whl")
    return found


@pytest.fixture(scope="module")
def gramophone(wheel: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The command, in a new environment that has the wheel and what it depends on.

    That is installed with `--exhaustive`; else it is copied from this Python's environment, which takes seconds.
    """
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    whole = pytestconfig.getoption("--exhaustive")
    how = ["--no-compile", *([] if whole else ["--no-deps", "--no-index"])]
    pip("--python", folder / "bin" / "python", "install", *how, wheel, cwd=folder)
    if not whole:
        (packages,) = folder.glob("lib/python*/site-packages")
        (about,) = packages.glob("gramophone-*.dist-info")
        for path in depended_on(metadata.Distribution.at(about).requires or []):
            if path.is_dir():
                shutil.copytree(path, packages / path.name)
            else:
                shutil.copy(path, packages)
    return folder / "bin" / "gramophone"


def depended_on(requirements: list[str]) -> set[Path]:
    """What lies in this Python's environment of packages that are required, and of those that they require."""
    found: set[Path] = set()
    left, known = list(requirements), set()
    while left:
        one = Requirement(left.pop())
        wanted = not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in ("", *one.extras))
        if not wanted or str(one) in known:
            continue
        known.add(str(one))
        package = metadata.distribution(one.name)
        left += package.requires or []
        names = {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}
        found |= {Path(str(package.locate_file(name))) for name in names}
    return found


def output_of(gramophone: Path, *arguments: str | Path) -> str:
    """Standard output of the command, run outside the checkout; it must succeed."""
    line = [str(gramophone), *map(str, arguments)]
    done = subprocess.run(
        line, cwd=gramophone.parent, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def test_every_tracked_file_of_the_packages_is_in_the_wheel(wheel: Path, tracked: list[str]) -> None:
    ours = {name for name in tracked if name.partition("/")[0] in (*PACKAGES, "gramophone.py")}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert (ours - names, names - ours) == (set(), set())


def delivered(gramophone: Path, folder: Path) -> tuple[Path, Path]:
    """The demo network, signed, and the public key."""
    key, public, built, signed = (folder / name for name in ("key.pem", "pub.pem", "net.gtr", "net.sgtr"))
    output_of(gramophone, "key", "new", "-o", key)
    output_of(gramophone, "key", "public", key, "-o", public)
    output_of(gramophone, "build", CHECKOUT / "host_tools/demo/lenet/lenet.raw.gtr", "-o", built, "--keep-inputs")
    output_of(gramophone, "sign", built, "--signing-key", key, "-o", signed)
    return signed, public


# The virtual GPU and the replayer are compiled twice; with parts of it: tests/unit/machine/test_sources.py.
@pytest.mark.exhaustive
def test_without_an_archive(gramophone: Path, tmp_path: Path) -> None:
    """On a machine that is not Debian, with nothing in its cache and no archive in reach: what to do is said."""
    signed, public = delivered(gramophone, tmp_path)
    settings = {"GRAMOPHONE_MIRROR": "http://127.0.0.1:9/debian", "XDG_CACHE_HOME": str(tmp_path / "cold")}
    line = [str(gramophone), "replay", str(signed), "--key", str(public), "--on", "vgpu"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        env = environment() | settings
        return subprocess.run([*line, *more], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    refused = run()
    assert refused.returncode == 2
    (said,) = without_progress(refused.stderr)
    assert said.startswith("error: source of bearssl, a crypto library that replayers link: apt-get upd")
    for hint in (
        "http://127.0.0.1:9/debian",
        "$GRAMOPHONE_MIRROR names another archive",
        "--bearssl DIR takes a ",
    ):
        assert hint in said
    crypto = libraries.source()
    given = run("--bearssl", str(crypto.bearssl), "--aws-lc", str(crypto.aws_lc))
    assert given.returncode == 0, given.stderr


UBUNTU = {
    "ubuntu.sources": """Types: deb
URIs: http://archive.ubuntu.com/ubuntu/
Suites: noble noble-updates noble-backports
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
""",
    "os-release": """PRETTY_NAME="Ubuntu 24.04 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION_CODENAME=noble
ID=ubuntu
""",
    "sources.list": "# Ubuntu sources have moved to /etc/apt/sources.list.d/ubuntu.sources\n",
}


def as_on_ubuntu(folder: Path) -> list[str]:
    """Start of a command line for which this machine's apt sources and release are Ubuntu 24.04's.

    In mount and user namespaces of its own; the test is skipped where the kernel does not give them.
    """
    files = folder / "ubuntu"
    (files / "sources.list.d").mkdir(parents=True)
    for name, text in UBUNTU.items():
        (files / ("sources.list.d" if name.endswith(".sources") else "") / name).write_text(text)
    mounts = [(files / "sources.list.d", "/etc/apt/sources.list.d"), (files / "os-release", "/usr/lib/os-release")]
    if Path("/etc/apt/sources.list").exists():
        mounts.append((files / "sources.list", "/etc/apt/sources.list"))
    script = " && ".join([*(f"mount --bind {source} {target}" for source, target in mounts), 'exec "$@"'])
    for options in (["--mount"], ["--mount", "--map-root-user"]):
        start = ["unshare", *options, "sh", "-c", script, "--"]
        tried = subprocess.run([*start, "cat", "/etc/os-release"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            assert "Ubuntu 24.04" in tried.stdout
            return start
    pytest.skip(f"no mount namespace to show another system's apt sources in: {tried.stderr.strip()}")


@pytest.mark.exhaustive
def test_the_installed_command_replays_on_ubuntu(gramophone: Path, tmp_path: Path) -> None:
    """With an empty cache: crypto libraries come from Debian's archive, by a private configuration; no option."""
    signed, public = delivered(gramophone, tmp_path)
    line = [str(gramophone), "replay", str(signed), "--key", str(public), "--on", "vgpu", "--json"]
    env = environment() | {"XDG_CACHE_HOME": str(tmp_path / "cold")}
    done = subprocess.run(
        [*as_on_ubuntu(tmp_path), *line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    if "apt-get update failed" in done.stderr and "GRAMOPHONE_MIRROR" not in env:
        pytest.skip(f"no archive in reach: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs"] > 0
    configurations = [path.read_text() for path in (tmp_path / "cold").rglob("*.sources")]
    assert configurations
    for sources in configurations:
        assert "ubuntu" not in sources
        assert "/debian-archive-keyring.gpg" in sources


def test_the_installed_command_works(wheel: Path, gramophone: Path, tmp_path: Path) -> None:
    """From the committed recording to a replay on the virtual GPU, and to the C sources of a replayer."""

    def command(*arguments: str | Path) -> Any:
        return json.loads(output_of(gramophone, *arguments, "--json"))

    assert output_of(gramophone, "--version").split()[-1] == wheel.name.split("-")[1]
    assert (
        command("verify", "trace", VECTORS / "es256.sgtr", "--key", VECTORS / "es256.pub.pem")["verdict"]
        == "verified"
    )
    key, public, built, signed = (tmp_path / name for name in ("key.pem", "pub.pem", "net.gtr", "net.sgtr"))
    command("key", "new", "-o", key)
    command("key", "public", key, "-o", public)
    jobs = command("build", CHECKOUT / "host_tools/demo/lenet/lenet.raw.gtr", "-o", built, "--keep-inputs")["jobs"]
    command("sign", built, "--signing-key", key, "-o", signed)
    assert command("replay", signed, "--key", public, "--on", "vgpu")["jobs"] == jobs > 0
    command("generate", "--gpu", "v3d42", "--platform", "qemu-virt", "--key", public, "-o", tmp_path / "out")
    assert {"replayer.c", "replayer.h", "Makefile"} <= {path.name for path in (tmp_path / "out").iterdir()}
    for line in ("dump", "lint", "inspect", "report"):
        output_of(gramophone, line, built)
    assert command("diff", built, built)["same"] is True
    output_of(gramophone, "strip", signed, "-o", tmp_path / "stripped.gtr")
    output_of(gramophone, "enrol", "-o", tmp_path / "device")
    output_of(gramophone, "audit-firmware", "--help")  # without capstone
    for line, module in MISSING.items():
        words = [word.format(signed=signed, public=public, out=tmp_path / "new") for word in line.split()]
        done = subprocess.run([gramophone, *words], env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 2, line
        (said,) = without_progress(done.stderr)
        assert said == f"error: {module} is missing: pip install 'gramophone[{EXTRAS[module]}]'"
        assert not (tmp_path / "new").exists()
