# SPDX-License-Identifier: BSD-2-Clause
"""The guest's root file system: one large archive made once from packages, one small one for each recording.

The kernel unpacks both into memory, the second over the first. Nothing of the host gets in: no times, no owners.
"""

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from host_tools.machine.cpio import Archive
from host_tools.machine.elf import closure
from host_tools.machine.kernel_modules import load_order
from host_tools.machine.placements import DRIVERS
from trace_format.files import read_file

LIBRARIES = "usr/lib/aarch64-linux-gnu"
PYTHON = "usr/bin/python3.13"
STDLIB = "usr/lib/python3.13"
PACKAGES = "usr/lib/python3/dist-packages"
MODULES = "usr/lib/modules"
ICDS = "usr/share/vulkan/icd.d"
# Loaded at run time, so no program's closure names them: Vulkan's loader, the drivers it loads, ncnn's module.
LOADED = (
    f"{LIBRARIES}/libvulkan.so.1",
    *(f"{LIBRARIES}/{driver.library}" for driver in DRIVERS),
)
# Parts of the standard library that no guest program uses and that are large.
STDLIB_LEFT_OUT = {
    "lib-dynload",
    "ensurepip",
    "pydoc_data",
    "unittest",
    "turtledemo",
    "tkinter",
    "idlelib",
    "__pycache__",
}
USR_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib"}
FOLDERS = ("dev", "proc", "sys", "tmp", "out", "cache", "usr/sbin", f"{STDLIB}/lib-dynload")


def base_archive(tree: Path, kernel_version: str) -> bytes:
    """The archive of everything that does not depend on the recording.

    Args:
        tree: file tree of the extracted packages, with the ncnn wheel under PACKAGES.
        kernel_version: names the kernel's module folder.
    """
    archive = Archive()
    for folder in FOLDERS:
        archive.add_folder(folder)
    for link, target in USR_LINKS.items():
        archive.add_link(link, target)
    ncnn = sorted(str(path.relative_to(tree)) for path in (tree / PACKAGES / "ncnn").glob("*.so"))
    add_host_files(archive, closure(tree, ["usr/bin/busybox", PYTHON, *LOADED, *ncnn]))
    add_host_files(archive, {str(path.relative_to(tree)): path for path in _python_files(tree)})
    add_host_files(archive, {f"{ICDS}/{driver.icd}": tree / ICDS / driver.icd for driver in DRIVERS})
    for driver in DRIVERS:
        add_driver(archive, tree / MODULES / kernel_version, driver.module)
    return archive.to_bytes()


def add_driver(archive: Archive, modules: Path, driver: str) -> None:
    """Add a kernel module and those that it needs, and the order in which `init` loads them.

    Args:
        archive: to add to.
        modules: `usr/lib/modules/VERSION` of the extracted kernel package.
        driver: the module's name.

    Raises:
        RecordError: as `load_order`.
    """
    needed = load_order(modules, [driver])
    for name, data in needed.items():
        archive.add_file(f"{MODULES}/{name}.ko", data)
    archive.add_file(f"{MODULES}/{driver}.order", "".join(f"{name}.ko\n" for name in needed).encode())


def job_archive(files: Mapping[str, bytes], programs: Iterable[str] = ()) -> bytes:
    """The archive of one recording: `files` by guest path; those among `programs` are executable."""
    archive = Archive()
    executable = set(programs)
    for path, data in files.items():
        archive.add_file(path, data, 0o755 if path in executable else 0o644)
    return archive.to_bytes()


def add_host_files(archive: Archive, files: Mapping[str, Path]) -> None:
    """Add host files by guest path: links followed, executable where the host's file is."""
    for path, host in files.items():
        executable = host.stat().st_mode & stat.S_IXUSR
        archive.add_file(path, read_file(host), 0o755 if executable else 0o644)


def _python_files(tree: Path) -> Iterable[Path]:
    for folder in (tree / STDLIB, tree / PACKAGES / "ncnn"):
        for path in sorted(folder.rglob("*.py")):
            # Links lead to configuration outside the library (/etc), which here would be the host's.
            if not path.is_symlink() and not STDLIB_LEFT_OUT & set(path.relative_to(folder).parts):
                yield path
