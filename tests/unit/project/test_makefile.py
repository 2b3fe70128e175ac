# SPDX-License-Identifier: BSD-2-Clause
"""What the Makefile installs: asked of make itself, with an apt-get, a sudo and an id that only look like them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.places import CHECKOUT

MAKEFILE = CHECKOUT / "Makefile"
# Programs that the recipes and the scripts below use; nothing else is on the path.
TOOLS = ("chmod", "echo", "env", "flock", "ln", "mkdir", "sleep", "sort", "touch", "xargs")
NEEDS = "shovel:garden-tools rake:garden-tools kettle:kitchen"
APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$LOG"
[ -z "$BROKEN" ] || { echo "E: no network" >&2; exit 100; }
case "$*" in *garden-tools*) touch "$FAKES/shovel" "$FAKES/rake"; chmod +x "$FAKES/shovel" "$FAKES/rake";; esac
case "$*" in *kitchen*) touch "$FAKES/kettle"; chmod +x "$FAKES/kettle";; esac
"""
SUDO = '#!/bin/sh\necho "sudo" >> "$LOG"\nexec "$@"\n'
# As root or not; Python that has all, or is too old, or has no ensurepip.
ROOT, USER = "#!/bin/sh\necho 0\n", "#!/bin/sh\necho 1000\n"
PYTHON = "#!/bin/sh\nexit 0\n"
OLD_PYTHON = '#!/bin/sh\n[ "$1" = --version ] && { echo Python 3.9.2; exit 0; }\nexit 1\n'
BARE_PYTHON = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\n'
INSTALL = "apt-get install -y -qq --no-install-recommends"


class Machine:
    """A folder that is all there is on the path, and what was asked of apt-get."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.log = folder / "bin", folder / "log"
        self.bin.mkdir()
        self.environment = {"PATH": str(self.bin), "LOG": str(self.log), "FAKES": str(self.bin), "BROKEN": ""}
        for name in TOOLS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        for name, text in {"apt-get": APT_GET, "id": ROOT, "python3": PYTHON}.items():
            self.add(name, text)

    def add(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [str(shutil.which("make")), "-s", "-f", str(MAKEFILE), f"SYSTEM_NEEDS={NEEDS}", *words]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=self.bin, env=self.environment)

    def make(self, *words: str) -> tuple[int, str]:
        """Exit status and what was said, without make's own last line."""
        process = self.start(*words)
        said = process.communicate()[1]
        return process.returncode, re.sub(r"make: \*\*\* .*\n", "", said)

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_is_missing(machine: Machine) -> None:
    for name in ("shovel", "rake", "kettle"):
        machine.add(name)
    assert machine.make("system") == (0, "")
    assert machine.asked == []


def test_one_is_missing(machine: Machine) -> None:
    """Only its package is installed, though other names of the list come from the same archive."""
    machine.add("shovel")
    machine.add("rake")
    assert machine.make("system") == (0, "installing packages: kitchen\n")
    assert machine.asked == ["apt-get update -qq", f"{INSTALL} kitchen"]


def test_two_of_one_package_are_missing(machine: Machine) -> None:
    machine.add("kettle")
    assert machine.make("system") == (0, "installing packages: garden-tools\n")
    assert machine.asked[1:] == [f"{INSTALL} garden-tools"]


def test_a_file_may_be_needed(machine: Machine, tmp_path: Path) -> None:
    header = tmp_path / "openssl.h"
    status, said = machine.make("system", f"SYSTEM_NEEDS={header}:libssl-dev")
    assert (status, "apt-get install libssl-dev\n" in said) == (2, True)
    header.touch()
    assert machine.make("system", f"SYSTEM_NEEDS={header}:libssl-dev") == (0, "")


def test_a_user_with_sudo(machine: Machine) -> None:
    machine.add("id", USER)
    machine.add("sudo", SUDO)
    assert machine.make("system")[0] == 0
    assert machine.asked == ["sudo", "apt-get update -qq", "sudo", f"{INSTALL} garden-tools kitchen"]


def test_a_user_without_sudo(machine: Machine) -> None:
    machine.add("id", USER)
    machine.add("kettle")
    status, said = machine.make("system")
    assert status == 2
    assert said == (
        "installing packages: garden-tools\n"
        "error: packages are missing and could not be installed; as root: apt-get install garden-tools\n"
    )
    assert machine.asked == []


def test_the_tests_ask_for_all_at_once(machine: Machine) -> None:
    machine.add("id", USER)
    _, said = machine.make("setup-test", "TEST_NEEDS=fork:kitchen spade:shed", "OPTEE_NEEDS=/no/header.h:headers")
    assert said.endswith("as root: apt-get install garden-tools headers kitchen shed\n")


def test_a_debian_without_frama_c(machine: Machine, tmp_path: Path) -> None:
    """What the error means is said, and nothing is run."""
    for name in ("shovel", "rake", "kettle"):
        machine.add(name)
    (machine.bin / ".venv" / "bin").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", ".venv/bin/.installed", ".venv/bin/.virtual-gpu"):
        (machine.bin / name).touch()
    status, said = machine.make("prove", "PROVE_NEEDS=frama-c:frama-c-base")
    assert status == 2
    assert said.splitlines() == [
        "the proof needs Frama-C: Debian 12 has it, Debian 13 has not",
        "installing packages: frama-c-base",
        "error: packages are missing and could not be installed; as root: apt-get install frama-c-base",
    ]


def test_without_network(machine: Machine) -> None:
    machine.environment["BROKEN"] = "yes"
    status, said = machine.make("system")
    assert status == 2
    assert said.endswith("as root: apt-get install garden-tools kitchen\n")


def test_python_without_ensurepip(machine: Machine) -> None:
    machine.add("python3", BARE_PYTHON)
    status, said = machine.make("system")
    assert (status, said.splitlines()[0]) == (2, "installing packages: garden-tools kitchen python3-venv")
    assert said.endswith("as root: apt-get install python3-venv\n")


@pytest.mark.parametrize(("text", "found"), [(OLD_PYTHON, "Python 3.9.2"), (None, "no python3")])
def test_python_too_old_or_missing(text: str | None, found: str, machine: Machine) -> None:
    """Said before anything is installed."""
    (machine.bin / "python3").unlink()
    if text:
        machine.add("python3", text)
    status, said = machine.make("system")
    assert (status, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: expected Python 3.11 or newer, found {found};")
    assert machine.asked == []


def test_two_at_once(machine: Machine, tmp_path: Path) -> None:
    """One waits for the other, and finds all there."""
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    slow_python = (
        f"#!/bin/sh\necho $* >> $LOG\nmkdir -p {tmp_path}/.venv/bin\n"
        f"[ -e {tmp_path}/.venv/bin/python ] || ln -s $0 {tmp_path}/.venv/bin/python || :\n"
    )
    machine.add("python3", slow_python)
    machine.add("apt-get", APT_GET.replace("#!/bin/sh\n", "#!/bin/sh\nsleep 0.5\n"))
    words = ("-C", str(tmp_path), "setup")
    runs = [machine.start(*words), machine.start(*words)]
    assert [run.wait(60) for run in runs] == [0, 0]
    for run in runs:
        run.communicate()
    assert sum(line.startswith(INSTALL) for line in machine.asked) == 1
    assert sum(line.startswith("-m venv") for line in machine.asked) == 1
    pip = [line for line in machine.asked if line.startswith("-m pip install")]
    installed = [line.partition("--disable-pip-version-check ")[2] for line in pip]
    assert installed == [
        "--require-hashes --only-binary :all: -r constraints.txt",
        "--no-deps --no-build-isolation -e .",
    ]
    assert sum(line.startswith("-m host_tools.cli manual") for line in machine.asked) == 1


def test_each_need_is_a_command_or_file_and_a_package() -> None:
    text = MAKEFILE.read_text().replace("\\\n", " ")
    lists = re.findall(r"^(\w+_NEEDS) := (.*)$", text, re.MULTILINE)
    assert {name for name, _ in lists} == {"SYSTEM_NEEDS", "TEST_NEEDS", "OPTEE_NEEDS", "PROVE_NEEDS"}
    for _, needs in lists:
        for need in needs.split():
            assert re.fullmatch(r"(/[\w./+-]+|[\w.+-]+):[a-z0-9][a-z0-9.+-]+", need), need
