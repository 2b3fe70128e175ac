# SPDX-License-Identifier: BSD-2-Clause
"""Write constraints.txt and constraints-fuzz.txt, `make constraints`: versions, and the hashes of their wheels.

Nothing is installed or built: pip resolves what pyproject.toml names, and reports the wheels that it would take on
each supported Python and Debian. `--keep` keeps the versions that are there, for example when a dependency is new.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")  # Debian 12, Ubuntu 24.04, Debian 13
GLIBCS = (36, 41)  # 2.36 of Debian 12, 2.41 of Debian 13: pip prefers the wheel of the newest that fits
MACHINE = "x86_64"
HEAD = """\
# The versions that were tested, on Python 3.11 and 3.13, and the hashes of their wheels for Linux on x86-64. `make
# constraints` writes this file. Not a list of dependencies: that is pyproject.toml, which says what each is for.
"""


def pinned(text: str) -> dict[str, list[str]]:
    """What a file of pins says: `NAME==VERSION` -> SHA-256 hashes."""
    rows = [line.split(" --hash=sha256:") for line in text.splitlines() if line and not line.startswith("#")]
    return {requirement: hashes for requirement, *hashes in rows}


def wheels(requirements: Iterable[str], *options: str) -> dict[str, str]:
    """The wheels that pip would take: `NAME==VERSION` -> SHA-256."""
    with tempfile.TemporaryDirectory() as folder:
        asked, report = Path(folder) / "asked.txt", Path(folder) / "report.json"
        asked.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--ignore-installed", "--only-binary", ":all:", "--report", str(report), "-r", str(asked)]
        subprocess.run([*command, *options], check=True)
        rows = json.loads(report.read_text(encoding="utf-8"))["install"]
    names = [f"{row['metadata']['name']}=={row['metadata']['version']}" for row in rows]
    found = [row["download_info"]["archive_info"]["hashes"]["sha256"] for row in rows]
    return dict(zip(names, found, strict=True))


def platforms(glibc: int) -> list[str]:
    """Options for the wheels of a machine, since pip takes no older glibc's of one that is named."""
    tags = [f"manylinux_2_{minor}_{MACHINE}" for minor in range(glibc, 4, -1)]
    tags += [f"{old}_{MACHINE}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    return [word for tag in tags for word in ("--platform", tag)]


def write(file: Path, requirements: Sequence[str], keep: bool) -> None:
    """Resolve requirements, and write the file of pins."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as kept:
        kept.write("\n".join(pinned(file.read_text(encoding="utf-8")) if keep and file.exists() else ()))
        kept.flush()
        versions = wheels(requirements, "-c", kept.name)
    hashes: dict[str, set[str]] = {name: set() for name in versions}
    for python in PYTHONS:
        for glibc in GLIBCS:
            there = ["--no-deps", "--python-version", python, "--target", "/nonexistent", *platforms(glibc)]
            for name, digest in wheels(versions, *there).items():
                hashes[name].add(digest)
    lines = [
        " --hash=sha256:".join([name, *sorted(hashes[name])]) for name in sorted(hashes, key=lambda n: n.lower())
    ]
    file.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """The command."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" != PYTHONS[0]:
        sys.exit(f"error: expected Python {PYTHONS[0]}, the oldest that is supported: make constraints PYTHON=...")
    table = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    project, keep = table["project"], "--keep" in arguments
    extras = project["optional-dependencies"]
    fuzz = extras.pop("fuzz")  # of one target only, and not there for each Python
    all_others = [line for lines in extras.values() for line in lines]
    write(
        CHECKOUT / "constraints.txt",
        [*table["build-system"]["requires"], *project["dependencies"], *all_others],
        keep,
    )
    write(CHECKOUT / "constraints-fuzz.txt", fuzz, keep)


if __name__ == "__main__":
    main(sys.argv[1:])
