# SPDX-License-Identifier: BSD-2-Clause
"""What the recording machine's Debian guest needs in addition to use OP-TEE: an archive laid over its root.

The packages are those of the root's own suite, so that the kernel's modules fit its kernel.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from host_tools.machine import elf, initramfs, kernel_modules
from host_tools.machine.apt import AptRoot
from host_tools.machine.cpio import Archive
from host_tools.machine.errors import RecordError
from host_tools.machine.root import ARCHITECTURE, SUITE, UNUSED, RecordRoot
from host_tools.runners.optee.bundle import bundle
from host_tools.runners.optee.client import LIBRARY, library
from host_tools.support.cache import cache_dir, locked, written_whole
from trace_format.files import read_file

MODULE = "optee"
# The kernel's modules, the supplicant, and what host_tools/device needs.
PACKAGES = ("linux-image-arm64", "tee-supplicant", "python3-cffi-backend")
SUPPLICANT = "usr/sbin/tee-supplicant"
LIBTEEC = f"{initramfs.LIBRARIES}/libteec.so.2"
EXTENSIONS = ("usr/lib/python3/dist-packages/_cffi_backend.*.so", f"{initramfs.STDLIB}/lib-dynload/mmap.*.so")
TAS, STORAGE = "usr/lib/optee_armtz", "var/lib/tee"
MODULE_FOLDERS = ("kernel/drivers/tee/",)


def client() -> tuple[dict[str, bytes], frozenset[str]]:
    """`gramophone-tee` and its library by guest path, and those of them that are programs.

    Raises:
        GramophoneError: as `host_tools.runners.optee.client.library`.
    """
    program = "usr/bin/gramophone-tee"
    return {program: bundle(), f"{initramfs.LIBRARIES}/{LIBRARY}": read_file(library())}, frozenset([program])


def layer(root: RecordRoot) -> Path:
    """The archive, made once for a recording root.

    Raises:
        RecordError: a package cannot be obtained, or is of another kernel than the root's.
    """
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    path = cache_dir("optee", "guests") / f"{root.key}-{own}.cpio"
    with locked(path.parent / "in-use"):
        if not path.exists():
            with written_whole(path) as temporary, tempfile.TemporaryDirectory(dir=path.parent) as tree:
                temporary.write_bytes(_archive(root, Path(tree)))
    return path


def _archive(root: RecordRoot, tree: Path) -> bytes:
    apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED)
    apt.download(PACKAGES)
    apt.extract(tree, keep=_wanted)
    release = root.versions["kernel"]
    modules = tree / initramfs.MODULES / release
    if not modules.is_dir():
        found = ", ".join(path.name for path in modules.parent.glob("*")) or "none"
        raise RecordError(
            f"expected the modules of kernel {release}, that of the recording root, found those of {found}: "
            "run `make record-root`"
        )
    archive = Archive()
    extensions = [str(path.relative_to(tree)) for pattern in EXTENSIONS for path in tree.glob(pattern)]
    if len(extensions) != len(EXTENSIONS):
        raise RecordError(f"expected one file each of {', '.join(EXTENSIONS)} in the packages, found {extensions}")
    initramfs.add_host_files(archive, elf.closure(tree, [SUPPLICANT, LIBTEEC, *extensions]))
    initramfs.add_driver(archive, modules, MODULE)
    for folder in (TAS, STORAGE):
        archive.add_folder(folder)
    archive.add_link("usr/bin/python3", f"/{initramfs.PYTHON}")
    return archive.to_bytes()


def _wanted(path: str) -> bool:
    """Whether the archive may need this file of a package."""
    if path.startswith(f"{initramfs.MODULES}/"):
        return kernel_modules.is_wanted(path, MODULE_FOLDERS)
    return path.startswith(("usr/lib/", "usr/sbin/"))
