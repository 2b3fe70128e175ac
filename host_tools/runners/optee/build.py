# SPDX-License-Identifier: BSD-2-Clause
"""Builds OP-TEE's core with a pseudo-TA, its development kit for TAs, and TF-A, for QEMU's machine "virt".

Sources come from Debian, of the versions in machine/tested.py; trees and objects are kept in the user's cache
folder. The first build takes minutes, that for another key seconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from host_tools.machine import sources
from host_tools.runners.replay import RunnerError
from host_tools.support import programs
from host_tools.support.cache import cache_dir, locked
from trace_format.files import read_file, read_file_text

CROSS = "aarch64-linux-gnu-"
# (source package, suite): OP-TEE's core is new enough in unstable only, whose versions change.
CORE, TFA = ("optee-os", "sid"), ("arm-trusted-firmware", "trixie")
# Commands and headers besides the cross compiler, by Debian package: TF-A's fiptool links OpenSSL.
NEEDS = {"dpkg-source": "dpkg-dev", "make": "make", "gcc": "gcc", "dtc": "device-tree-compiler"}
NEEDS |= {f"{CROSS}gcc": "gcc-aarch64-linux-gnu"}
OPENSSL_HEADER = Path("/usr/include/openssl/sha.h")
CORE_FLAGS = (
    *("PLATFORM=vexpress-qemu_armv8a", "CFG_ARM64_core=y", "CFG_ARM_GICV3=y", "CFG_USER_TA_TARGETS=ta_arm64"),
    *(f"CROSS_COMPILE64={CROSS}", f"CROSS_COMPILE_core={CROSS}", "CFG_TEE_CORE_LOG_LEVEL=1"),
    "CFG_CRYPTO_WITH_CE=y",  # SHA-256 by instructions, which the machine has
    "CFG_WITH_STATS=y",  # the core reports how much of its heap is in use
)
SWITCH = "CFG_GRAMOPHONE_PTA"
PTA_OBJECT = "gramophone.o"
TA_KEY = "keys/default_ta.pem"  # in OP-TEE's tree, and in its development kit
IN_USE = "core-in-use"  # lock of OP-TEE's tree
CRYPTO = ("bearssl", "aws-lc")  # folders in that of a pseudo-TA
PTA_SUFFIXES = (".c", ".h", ".inc", ".mk", ".S")
CORE_BINARIES = ("tee-header_v2.bin", "tee-pager_v2.bin", "tee-pageable_v2.bin")
CORE_ELF = "tee.elf"  # the same with symbols, for audits
TFA_FLAGS = (
    *("PLAT=qemu", f"CROSS_COMPILE={CROSS}", "SPD=opteed", "BL32_RAM_LOCATION=tdram"),
    *("QEMU_USE_GIC_DRIVER=QEMU_GICV3", "LOG_LEVEL=10"),  # only errors
)
TFA_BINARIES = ("bl1.bin", "bl2.bin", "bl31.bin")
MAKE_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")


def core_of(pta: Path, ta_key: bytes = b"") -> Path:
    """Folder with OP-TEE's core, as three binaries and as ELF, with the pseudo-TA in `pta`.

    Args:
        pta: the folder.
        ta_key: public key (PEM, RSA) of the signer whose TAs the core accepts; without it OP-TEE's own, whose
            private part is public.
    """
    tree = source(*CORE)
    parts = [(tree.name, " ".join(CORE_FLAGS).encode()), (CORE_ELF, b""), *_contents(pta)]
    if ta_key:
        parts.append(("ta_key", ta_key))
    kept = cache_dir("optee", "cores") / digest_of(parts)
    with locked(cache_dir("optee") / IN_USE):
        if not kept.exists():
            _compile_core(tree, pta, kept, ta_key or read_file(tree / TA_KEY))
    return kept


def _compile_core(tree: Path, pta: Path, kept: Path, ta_key: bytes) -> None:
    """In the one source tree, where most objects are left from the last build."""
    folders = tree / "core" / "pta" / "sub.mk"
    line = f"subdirs-$({SWITCH}) += gramophone\n"
    text = read_file_text(folders)
    if line not in text:
        folders.write_text(f"{text}\n{line}", encoding="utf-8")
    place = tree / "core" / "pta" / "gramophone"
    place.mkdir(exist_ok=True)
    contents = dict(_contents(pta))
    for old in place.rglob("*"):
        if old.is_file() and old.relative_to(place).as_posix() not in contents:
            old.unlink()
    for name, data in contents.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        _write_changed(place / name, data)
    key = tree.parent / "ta_key.pem"
    _write_changed(key, ta_key)
    out = _out_of(tree)
    targets = [out / "core" / name for name in CORE_BINARIES]
    _make(tree, "OP-TEE's core", f"{SWITCH}=y", f"TA_PUBLIC_KEY={key}", *map(str, targets))
    _keep([*targets, out / "core" / CORE_ELF, out / "core" / "pta" / "gramophone" / PTA_OBJECT], kept)


def ta_dev_kit() -> Path:
    """Folder with OP-TEE's development kit for TAs (its TA_DEV_KIT_DIR)."""
    tree = source(*CORE)
    kept = cache_dir("optee", "kits") / digest_of([(tree.name, " ".join(CORE_FLAGS).encode())])
    with locked(cache_dir("optee") / IN_USE):
        if not kept.exists():
            _make(tree, "OP-TEE's development kit for TAs", "ta_dev_kit")
            with tempfile.TemporaryDirectory(dir=kept.parent) as name:
                shutil.copytree(_out_of(tree) / "export-ta_arm64", Path(name) / kept.name)
                os.rename(Path(name) / kept.name, kept)
    return kept


def _make(tree: Path, what: str, *arguments: str) -> None:
    """Run OP-TEE's make."""
    # Its scripts import cryptography and elftools, which this interpreter has.
    settings = [*CORE_FLAGS, f"O={_out_of(tree)}", f"PYTHON3={sys.executable}"]
    run_program(["make", "-s", "-C", str(tree), f"-j{os.cpu_count() or 1}", *settings, *arguments], what)


def _out_of(tree: Path) -> Path:
    """Where a source tree is built."""
    return tree.parent / f"{tree.name}.out"


def _write_changed(path: Path, data: bytes) -> None:
    """Write a file unless it has this content: make goes by its time."""
    if not path.exists() or read_file(path) != data:
        path.write_bytes(data)


@cache
def tfa_build() -> Path:
    """Folder with TF-A's stages for the machine and its fiptool."""
    tree = source(*TFA)
    kept = cache_dir("optee", "tfa") / digest_of([(tree.name, " ".join(TFA_FLAGS).encode())])
    with locked(cache_dir("optee") / "tfa-in-use"):
        if not kept.exists():
            out = _out_of(tree)
            command = ["make", "-s", "-C", str(tree), f"-j{os.cpu_count() or 1}", *TFA_FLAGS, f"BUILD_BASE={out}"]
            run_program([*command, "bl1", "bl2", "bl31", "fiptool"], "TF-A")
            built = [out / "qemu" / "release" / name for name in TFA_BINARIES]
            _keep([*built, tree / "tools" / "fiptool" / "fiptool"], kept)
    return kept


def source(package: str, suite: str) -> Path:
    """The unpacked source of a Debian package, of which TF-A or OP-TEE is built.

    Raises:
        RunnerError: a program that the builds need is missing.
        RecordError: it cannot be obtained.
    """
    missing = [name for program, name in NEEDS.items() if shutil.which(program) is None]
    if not OPENSSL_HEADER.is_file():
        missing.append("libssl-dev")
    if missing:
        raise RunnerError(f"OP-TEE cannot be built: apt-get install {' '.join(missing)}")
    tree = sources.source(package, suite, "of which the secure world is built")
    if len(str(tree).split()) > 1:
        raise RunnerError(f"OP-TEE cannot be built in {tree}: make takes no path with a space; set XDG_CACHE_HOME")
    return tree


def digest_of(parts: Iterable[tuple[str, bytes]]) -> str:
    """A short name for some files: names and contents."""
    digest = hashlib.sha256()
    for name, data in parts:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


def _contents(pta: Path) -> list[tuple[str, bytes]]:
    """The pseudo-TA's own files, and its crypto library's; next to them lie what calls it and a README."""
    files = [*pta.iterdir(), *(path for name in CRYPTO for path in (pta / name).rglob("*"))]
    return [
        (path.relative_to(pta).as_posix(), read_file(path))
        for path in sorted(files)
        if path.suffix in PTA_SUFFIXES
    ]


def _keep(files: Iterable[Path], kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        fresh = Path(name) / kept.name
        fresh.mkdir()
        for file in files:
            shutil.copy(file, fresh)
        os.rename(fresh, kept)


def run_program(command: list[str], what: str) -> str:
    """Run a program: what it printed; RunnerError with the last lines of that when it fails."""
    # A make around this process must not hand its own flags and job server down.
    clean = {name: value for name, value in os.environ.items() if name not in MAKE_OWN}
    try:
        done = programs.run(command, merged=True, env=clean)
    except FileNotFoundError:
        raise RunnerError(f"{what} cannot be built: {command[0]} is missing") from None
    if done.returncode:
        raise RunnerError(f"{what} cannot be built:\n" + "\n".join(done.stdout.strip().splitlines()[-15:]))
    return done.stdout
