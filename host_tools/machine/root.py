# SPDX-License-Identifier: BSD-2-Clause
"""Prepares what the recording machine boots: `python -m host_tools.machine.root` (`make record-root`).

Kernel, Mesa and Python come from Debian's archive, ncnn from PyPI, all unmodified. A recording's provenance, and
the hashes it is compared with, are keyed by the versions in the root's manifest.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from rich.console import Console

from host_tools.machine import cpio, elf, initramfs, kernel_modules, wheels
from host_tools.machine.apt import AptRoot
from host_tools.machine.errors import RecordError
from host_tools.machine.placements import DRIVERS
from host_tools.support.cache import cache_dir, locked, written_whole
from host_tools.support.messages import listening
from host_tools.support.progress import phase
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file, read_file_text

SUITE, ARCHITECTURE = "trixie", "arm64"
PACKAGES = ("linux-image-arm64", "mesa-vulkan-drivers", "libvulkan1", "python3.13", "busybox-static")
# Taken as present: no file of the guest uses them, and the first alone would double the download.
UNUSED = ("libllvm19", "initramfs-tools", "linux-initramfs-tool", "debconf", "tzdata", "libx11-data", "kmod")
KEPT_UNUSED_S = 7 * 86400
NOT_PREPARED = "not prepared"
# The kernel's modules that a GPU driver can depend on; the rest (file systems, network, sound) is not unpacked.
MODULE_FOLDERS = tuple(
    f"kernel/drivers/{name}/" for name in ("gpu", "devfreq", "soc", "pmdomain", "iommu", "virtio")
)


@dataclass(frozen=True)
class RecordRoot:
    """The prepared root.

    Attributes:
        folder: where it lies in the cache.
        kernel: the kernel's image.
        tree: extracted file tree of the packages, from which a program's libraries are taken.
        base: the guest's initramfs, without a recording's own files.
        versions: package name -> version, of everything in it; "kernel" is the kernel's release.
        key: names this set of packages; recordings with the same key can be compared bit for bit.
        snapshot: name of the archive's snapshot that they were taken from; "" for the newest.
    """

    folder: Path
    kernel: Path
    tree: Path
    base: Path
    versions: dict[str, str]
    key: str
    snapshot: str = ""

    @property
    def notes(self) -> dict[str, Any]:
        """What the notes of a recording say of it."""
        return {"packages": self.versions} | ({"snapshot": self.snapshot} if self.snapshot else {})

    @property
    def kernel_name(self) -> str:
        """Kernel and its version, for a manifest."""
        name = next(name for name in self.versions if name.startswith("linux-image"))
        return f"Debian {name.removesuffix('-unsigned')} {self.versions[name]}"[:64]

    @property
    def driver_name(self) -> str:
        """User-space driver and its version, for a manifest."""
        return f"Debian mesa-vulkan-drivers {self.versions['mesa-vulkan-drivers']}"[:64]


def record_root(snapshot: str = "") -> RecordRoot:
    """The root prepared last.

    Args:
        snapshot: name of the archive's snapshot that it is of; "" for the newest packages.

    Raises:
        RecordError: none was prepared, it is incomplete, or it was built by another version of this tool.
    """
    current = _current(snapshot)
    advice = "run `make record-root`"
    try:
        folder = current.parent / read_file_text(current, limits.TEXT_BYTES).strip()
        manifest = json.loads(read_file_text(folder / "manifest.json", limits.TEXT_BYTES))
        if manifest["builder"] != _builder():
            raise RecordError(f"the recording root was built by another version of this tool: {advice}")
        versions = {package["name"]: package["version"] for package in manifest["packages"]}
        versions["kernel"] = manifest["kernel"]
        os.utime(folder / "manifest.json")  # in use, says this to _remove_unused
        files = folder / "vmlinuz", folder / "tree", folder / "base.cpio"
        return RecordRoot(folder, *files, versions, manifest["key"], snapshot)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"the recording root is not prepared ({error}): {advice}") from error


def ready_root(snapshot: str = "") -> RecordRoot:
    """The root prepared last, or one prepared now when there is none that fits this version of the tool.

    Args:
        snapshot: as for `record_root`.

    Raises:
        RecordError: as `prepare`.
    """
    try:
        return record_root(snapshot)
    except RecordError:
        return prepare(snapshot=snapshot)


def packages_key(snapshot: str = "", *, make_ready: bool = False) -> str:
    """Which packages the recording machine has, in one word.

    Args:
        snapshot: as for `record_root`.
        make_ready: the machine is prepared first if it must be.

    Raises:
        RecordError: as `ready_root`, where it is to be prepared.
    """
    if make_ready:
        return ready_root(snapshot).key
    try:
        return record_root(snapshot).key
    except RecordError:
        return NOT_PREPARED


def prepare(update: bool = False, snapshot: str = "") -> RecordRoot:
    """Download, unpack and build what is missing.

    Args:
        update: look for newer packages in the suite (else an index fetched earlier is used).
        snapshot: as for `record_root`.

    Raises:
        RecordError: a package cannot be fetched, or does not hold what the guest needs.
    """
    with locked(cache_dir("record") / "in-use"):
        return _prepare(update, snapshot)


def _prepare(update: bool, snapshot: str) -> RecordRoot:
    apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED, stamp=snapshot)
    if update:
        apt.update()
    debs = apt.download(PACKAGES)
    wheel = wheels.ncnn_wheel()
    packages = [
        *({"name": deb.name, "version": deb.version, "sha256": deb.sha256, "file": deb.path.name} for deb in debs),
        {"name": wheel.name, "version": wheel.version, "sha256": wheel.sha256, "file": wheel.path.name},
    ]
    key = hashlib.sha256((_builder() + json.dumps(packages)).encode()).hexdigest()[:16]
    folder = cache_dir("record") / key
    if not (folder / "manifest.json").exists():
        building = Path(mkdtemp(prefix=".building.", dir=folder.parent))
        try:
            manifest = {
                "key": key,
                "builder": _builder(),
                "suite": SUITE,
                "architecture": ARCHITECTURE,
                "kernel": _build(building, apt, wheel),
                "packages": packages,
            }
            (building / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)  # without a manifest it was never finished
            building.rename(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    with written_whole(_current(snapshot)) as path:
        path.write_text(key + "\n", encoding="ascii")
    root = record_root(snapshot)
    _remove_unused(folder.parent)
    return root


def _current(snapshot: str) -> Path:
    """File with the key of the root prepared last; each version of this tool has its own, in whatever checkout."""
    return cache_dir("record") / "-".join(filter(None, ("current", _builder(), snapshot)))


def _remove_unused(folder: Path) -> None:
    """Remove roots that nobody has used of late, of some 200 MB each: another checkout may be booting from one."""
    for manifest in folder.glob("*/manifest.json"):
        if time.time() - manifest.stat().st_mtime > KEPT_UNUSED_S:
            shutil.rmtree(manifest.parent)


def _build(folder: Path, apt: AptRoot, wheel: wheels.Wheel) -> str:
    """Fill `folder`; the kernel's release."""
    with phase("unpacking the guest's packages"):
        apt.extract(folder / "tree", keep=_wanted)
        wheels.extract(wheel, folder / "tree" / initramfs.PACKAGES)
    kernels = sorted((folder / "tree" / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise RecordError(f"expected one kernel in the packages, found {[path.name for path in kernels]}")
    version = kernels[0].name.removeprefix("vmlinuz-")
    with phase("building the guest's root file system"):
        (folder / "base.cpio").write_bytes(initramfs.base_archive(folder / "tree", version))
    shutil.copyfile(kernels[0], folder / "vmlinuz")
    return version


def _wanted(path: str) -> bool:
    """Whether the guest, or a recorded program, can need this file of a package."""
    if path.startswith(f"{initramfs.MODULES}/"):
        return kernel_modules.is_wanted(path, MODULE_FOLDERS)
    if path.startswith(f"{initramfs.LIBRARIES}/libvulkan_"):
        return path in initramfs.LOADED
    return not path.startswith(("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/lintian/"))


def _builder() -> str:
    """Hash of the code that decides what is in a root, so that a change of it makes a new one."""
    digest = hashlib.sha256()
    for module in (cpio, elf, initramfs, kernel_modules, sys.modules[__name__]):
        digest.update(read_file(Path(str(module.__file__))))
    digest.update(repr(DRIVERS).encode())
    return digest.hexdigest()[:16]


def main() -> int:
    """Command line of `make record-root`."""
    parser = argparse.ArgumentParser(prog="python -m host_tools.machine.root", description=__doc__)
    parser.add_argument("--update", action="store_true", help="look for newer packages")
    console = Console(stderr=True)
    try:
        root = prepare(parser.parse_args().update)
    except GramophoneError as error:
        console.print(f"error: {error}", markup=False, highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted; what is finished is kept, run it again to go on")
        return 130
    shown = {name: root.versions[name] for name in ("kernel", "mesa-vulkan-drivers", "python3.13", "ncnn")}
    console.print(f"recording root {root.key} in {root.folder}", markup=False, highlight=False, soft_wrap=True)
    console.print(", ".join(f"{name} {version}" for name, version in shown.items()), highlight=False)
    return 0


if __name__ == "__main__":
    with listening():
        sys.exit(main())
