"""The guest's root file system: one large archive made once from packages, one small one for each recording.

The kernel unpacks both into memory, the second over the first. Nothing of the host gets in: no times, no owners.
"""

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from host_tools.record.cpio import Archive
from host_tools.record.elf import closure
from host_tools.record.kernel_modules import load_order

LIBRARIES = "usr/lib/aarch64-linux-gnu"
PYTHON = "usr/bin/python3.13"
STDLIB = "usr/lib/python3.13"
PACKAGES = "usr/lib/python3/dist-packages"
# Loaded at run time, so no program's closure names them: Vulkan's loader, the drivers it loads, ncnn's module.
LOADED = (
    f"{LIBRARIES}/libvulkan.so.1",
    f"{LIBRARIES}/libvulkan_broadcom.so",
    f"{LIBRARIES}/libvulkan_panfrost.so",
)
ICDS = ("broadcom_icd.json", "panfrost_icd.json")
DRIVERS = ("v3d", "panfrost")
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
    add_host_files(
        archive, {f"usr/share/vulkan/icd.d/{name}": tree / "usr/share/vulkan/icd.d" / name for name in ICDS}
    )
    for driver in DRIVERS:
        modules = load_order(tree / "usr/lib/modules" / kernel_version, [driver])
        for name, data in modules.items():
            archive.add_file(f"usr/lib/modules/{name}.ko", data)
        order = "".join(f"{name}.ko\n" for name in modules)
        archive.add_file(f"usr/lib/modules/{driver}.order", order.encode())
    return archive.to_bytes()


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
        archive.add_file(path, host.read_bytes(), 0o755 if executable else 0o644)


def _python_files(tree: Path) -> Iterable[Path]:
    for folder in (tree / STDLIB, tree / PACKAGES / "ncnn"):
        for path in sorted(folder.rglob("*.py")):
            # Links lead to configuration outside the library (/etc), which here would be the host's.
            if not path.is_symlink() and not STDLIB_LEFT_OUT & set(path.relative_to(folder).parts):
                yield path
