# SPDX-License-Identifier: BSD-2-Clause
"""The recording machine's root with further packages of Debian, for programs that need more than Vulkan.

They come from the archive, suite and snapshot that the root's own packages come from, and go into the guest whole:
what a library loads at run time, no program's closure names.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from host_tools.machine import initramfs
from host_tools.machine.apt import AptRoot, Deb
from host_tools.machine.cpio import Archive
from host_tools.machine.elf import closure
from host_tools.machine.errors import RecordError
from host_tools.machine.root import ARCHITECTURE, PACKAGES, SUITE, UNUSED, RecordRoot
from host_tools.support.cache import cache_dir, made_once
from host_tools.support.progress import phase
from trace_format.files import open_regular, read_file

ELF = b"\x7fELF"
NEEDED_HERE = ("libllvm19",)  # OpenGL's and OpenCL's drivers use it, Vulkan's do not
LEFT_OUT = tuple(f"usr/share/{name}/" for name in ("doc", "man", "locale", "lintian"))


def with_packages(root: RecordRoot, names: Sequence[str]) -> RecordRoot:
    """The root with these packages and what they depend on.

    Raises:
        RecordError: an unknown package, no network, or a package of the root would be of another version.
    """
    assume = [name for name in UNUSED if name not in (*NEEDED_HERE, *names)]
    apt = AptRoot(SUITE, ARCHITECTURE, "record-more", assume=assume, stamp=root.snapshot)
    debs = apt.download([*PACKAGES, *names])
    for deb in debs:
        version = root.versions.get(deb.name, deb.version)
        if version != deb.version:
            raise RecordError(
                f"packages {', '.join(names)}: with them {deb.name} would be {deb.version}, the recording root "
                f"has {version}: update it: python -m host_tools.machine.root --update"
            )
    fresh = [deb for deb in debs if deb.name not in root.versions]
    key = hashlib.sha256(
        "\0".join([root.key, Path(__file__).read_text(encoding="utf-8"), *(deb.sha256 for deb in fresh)]).encode()
    ).hexdigest()[:16]
    folder = made_once(cache_dir("packages") / key, lambda folder: _make(folder, root, apt, fresh))
    versions = {**root.versions, **{deb.name: deb.version for deb in fresh}}
    return replace(
        root, folder=folder, tree=folder / "tree", base=folder / "base.cpio", versions=versions, key=key
    )


def _make(folder: Path, root: RecordRoot, apt: AptRoot, fresh: list[Deb]) -> None:
    """Fill `folder`: the tree, of links to the root's files and of the packages', and the guest's initramfs."""
    apt.debs = fresh
    own = folder / "own"
    with phase("unpacking further packages for the guest"):
        shutil.copytree(root.tree, folder / "tree", symlinks=True, copy_function=os.link)
        for tree in (own, folder / "tree"):
            apt.extract(tree, keep=lambda path: not path.startswith(LEFT_OUT))
    with (folder / "base.cpio").open("wb") as out, open_regular(root.base) as base:
        shutil.copyfileobj(base, out)
        out.write(_archive(own, folder / "tree"))
    shutil.rmtree(own)


def _begins(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(len(ELF))


def _archive(own: Path, tree: Path) -> bytes:
    """All that the packages have, and the libraries that theirs need of the root's packages."""
    archive = Archive()
    libraries = [path for path in sorted(own.rglob("*.so*")) if path.is_file() and _begins(path) == ELF]
    needed = closure(tree, [str(path.relative_to(own)) for path in libraries])
    initramfs.add_host_files(archive, {name: path for name, path in needed.items() if not (own / name).exists()})
    for path in sorted(own.rglob("*")):
        name = str(path.relative_to(own))
        if name in initramfs.USR_LINKS:
            raise RecordError(f"a package has /{name} as a folder, which in the guest is a link")
        if path.is_symlink():
            archive.add_link(name, os.readlink(path))
        elif path.is_file():
            archive.add_file(name, read_file(path), 0o755 if os.access(path, os.X_OK) else 0o644)
    return archive.to_bytes()
