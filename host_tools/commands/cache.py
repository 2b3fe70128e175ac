# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone cache list` and `gramophone cache clean`: what is kept between runs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from host_tools.commands.framework import GramophoneCommand, Outcome, UsageError
from host_tools.support.cache import cache_dir
from host_tools.support.results import Count, Result
from trace_format.errors import listed, printable

DAY_S = 24 * 3600
SHADERS = "shaders"  # in `record`: a file for each network
IN_USE = "in-use"  # a lock
# What the folders of the cache hold; all of it is made or fetched again when it is wanted.
PARTS = {
    "apt": "package lists and packages of Debian",
    "bearssl": "BearSSL's source",
    "firmware": "firmware that replay compiled",
    "machines": "recording machines that are ready for a job",
    "make": "what make has made, by what it was made of",
    "optee": "OP-TEE and TF-A, built",
    "packages": "recording machines with further packages",
    "plans": "what compilers made of networks",
    "pnnx": "the converter of networks",
    "record": "recording machines and shader caches",
    "replayer": "the replayer, compiled for this machine",
    "source": "source packages of Debian",
    "vgpu": "virtual GPUs and QEMU plugins, compiled",
    "wheels": "ncnn for the guest, pnnx as packages",
}


@dataclass(frozen=True)
class Size:
    """Of something in the cache; as `Part`."""

    files: int
    bytes: int
    idle_days: int


class Part(Result):
    """A part of the cache.

    Attributes:
        name: Of its folder.
        what: It holds.
        files: Regular ones.
        bytes: As they lie on the disk.
        idle_days: Since a file in it was last read or written; whole days.
    """

    name: str
    what: str
    files: Count
    bytes: Count
    idle_days: Count


class Kept(Result):
    """What is kept between runs."""

    folder: str
    bytes: Count
    parts: list[Part]


class Removed(Result):
    """What was removed of it.

    Attributes:
        removed: Names of the parts.
    """

    folder: str
    removed: list[str]
    bytes: Count


def _entries() -> Iterator[tuple[str, Path]]:
    """What can be removed by itself, and the part that it belongs to; locks are not touched."""
    for part in sorted(cache_dir().iterdir()):
        for path in sorted(part.iterdir()) if part.is_dir() else [part]:
            inner = path.iterdir() if path.name == SHADERS else [path]
            yield from ((part.name, item) for item in inner if item.suffix != ".lock" and item.name != IN_USE)


def _entry(path: Path) -> Size:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    states = [file.lstat() for file in files]
    last = max((max(state.st_atime, state.st_mtime) for state in states), default=path.lstat().st_mtime)
    idle = max(0, int((time.time() - last) // DAY_S))
    return Size(len(files), sum(state.st_blocks * 512 for state in states), idle)


def _parts() -> list[Part]:
    found: dict[str, list[Size]] = {}
    for name, path in _entries():
        found.setdefault(name, []).append(_entry(path))
    return [
        Part(
            name,
            PARTS.get(name, "not known to this version"),
            sum(size.files for size in sizes),
            sum(size.bytes for size in sizes),
            min(size.idle_days for size in sizes),
        )
        for name, sizes in found.items()
    ]


def _rows(parts: list[Part]) -> list[str]:
    return [
        f"{printable(part.name):12} {part.files:7} files {part.bytes / 1e6:9.1f} MB, "
        f"unused for {part.idle_days:4} days: {part.what}"
        for part in parts
    ]


@click.command("list", cls=GramophoneCommand, example="gramophone cache list")
def list_command() -> Outcome[Kept]:
    """Show the parts of the cache: files, size, days unused."""
    parts = _parts()
    total = sum(part.bytes for part in parts)
    lines = [*_rows(parts), f"{cache_dir()}: {total / 1e6:.1f} MB"]
    return Outcome(Kept(str(cache_dir()), total, parts), "\n".join(lines))


@click.command(
    "clean",
    cls=GramophoneCommand,
    example=(
        "gramophone cache clean record optee\n"
        "gramophone cache clean --unused-days 30\n"
        "gramophone cache clean --all"
    ),
)
@click.argument("names", nargs=-1, metavar="[PART]...")
@click.option(
    "--unused-days", type=click.IntRange(0), metavar="N", help="Remove files unused for N days, in all parts."
)
@click.option("--all", "everything", is_flag=True, help="All parts of it.")
def clean_command(names: tuple[str, ...], unused_days: int | None, everything: bool) -> Outcome[Removed]:
    """Remove parts of the cache.

    Commands download or rebuild missing parts. Do not remove parts while another command runs.
    """
    if sum((bool(names), unused_days is not None, everything)) != 1:
        raise UsageError("expected the names of parts, or --unused-days N, or --all")
    known = sorted({name for name, _ in _entries()})
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no part of the cache is called {listed(unknown)}; there are: {listed(known)}")
    freed, removed = 0, set()
    for name, path in list(_entries()):
        size = _entry(path)
        if everything or name in names or (unused_days is not None and size.idle_days >= unused_days):
            path.unlink() if path.is_file() or path.is_symlink() else shutil.rmtree(path)
            freed += size.bytes
            removed.add(name)
    return Outcome(
        Removed(str(cache_dir()), sorted(removed), freed),
        f"{cache_dir()}: removed {freed / 1e6:.1f} MB of {listed(sorted(removed))}",
    )
