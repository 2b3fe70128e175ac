# SPDX-License-Identifier: BSD-2-Clause
"""Build a released wheel again and compare: `python -m tests.packaging.verify_release FILE.whl --ref v0.1.0`.

The wheel says what it was built with (its WHEEL file: "Generator: setuptools (80.9.0)"), and the commit when. Exit
status 0: the same bytes; 1: other ones, and which files differ; 2: it cannot be built, or is no wheel.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.places import CHECKOUT
from trace_format.errors import GramophoneError

MOST = 20  # files that are named
GENERATOR = re.compile(r"^Generator: setuptools \(([\w.]+)\)$", re.MULTILINE)


def generator_of(wheel: Path) -> str:
    """Version of setuptools that built a wheel; GramophoneError when the file does not say so."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
            found = GENERATOR.search(archive.read(name).decode("utf-8", "replace"))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise GramophoneError(f"{wheel}: expected a wheel: {error}") from None
    if found is None:
        raise GramophoneError(f"{wheel}: {name}: expected 'Generator: setuptools (VERSION)', found none")
    return found[1]


def rebuilt(ref: str, setuptools: str, folder: Path, checkout: Path = CHECKOUT) -> Path:
    """A wheel of a commit, built in a folder.

    Args:
        ref: a tag or a commit.
        setuptools: version of it.
        folder: for the sources and the wheel.
        checkout: a clone that has the commit.

    Raises:
        GramophoneError: there is no such commit, or it cannot be built.
    """
    source = folder / "source"
    _run(["git", "clone", "--quiet", "--no-checkout", str(checkout), str(source)], "git")
    commit = _run(["git", "-C", str(checkout), "rev-parse", "--verify", f"{ref}^{{commit}}"], f"no commit {ref}")
    _run(["git", "-C", str(source), "-c", "advice.detachedHead=false", "checkout", "--quiet", commit], ref)
    when = _run(["git", "-C", str(source), "log", "-1", "--format=%ct"], ref)
    pins = (source / "constraints.txt").read_text(encoding="utf-8").splitlines()
    mine = [pin for pin in pins if pin.startswith(f"setuptools=={setuptools} --hash=")]
    if not mine:
        raise GramophoneError(f"{ref}: constraints.txt: expected setuptools {setuptools} with a hash, found none")
    (folder / "backend.txt").write_text(f"{mine[0]}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    hashed = ["--require-hashes", "--only-binary", ":all:", "-r", str(folder / "backend.txt")]
    _run([*pip, "install", "--target", str(folder / "backend"), *hashed], f"no setuptools {setuptools}")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": when, "PYTHONPATH": str(folder / "backend")}
    command = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder / "out"), str(source)]
    _run(command, f"{ref} cannot be built", environment)
    (found,) = (folder / "out").glob("*.whl")
    return found


def differences(one: Path, other: Path) -> list[str]:
    """Files of two wheels that differ, or that one of them lacks; none: order or times may differ."""
    found = []
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        names, others = set(first.namelist()), set(second.namelist())
        for name in sorted(names | others):
            if name not in others:
                found.append(f"{name}: is not built")
            elif name not in names:
                found.append(f"{name}: is missing")
            elif first.read(name) != second.read(name):
                found.append(f"{name}: differs")
    return found


def verify(wheel: Path, ref: str, checkout: Path = CHECKOUT) -> tuple[bool, str]:
    """Whether a wheel is what a commit builds, and what to say of it."""
    setuptools = generator_of(wheel)
    with tempfile.TemporaryDirectory() as name:
        again = rebuilt(ref, setuptools, Path(name), checkout)
        data, own = wheel.read_bytes(), again.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if again.name != wheel.name:
            return False, f"{wheel}: {ref} builds {again.name}"
        if data == own:
            return True, f"{wheel}: {ref}, built with setuptools {setuptools}, is the same: SHA-256 {digest}"
        lines = differences(wheel, again) or ["the same files, but their order, times or compression differ"]
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return False, "\n".join([f"{wheel}: is not what {ref} builds:", *lines[:MOST], *more])


def _run(command: Sequence[str], what: str, environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise GramophoneError(f"{command[0]} is missing") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise GramophoneError(f"{what}: {last}")
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.verify_release", description=__doc__)
    parser.add_argument("wheel", type=Path, metavar="FILE.whl")
    parser.add_argument("--ref", required=True, help="The release's tag, or a commit.")
    options = parser.parse_args(arguments)
    try:
        same, text = verify(options.wheel, options.ref)
    except GramophoneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(text)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
