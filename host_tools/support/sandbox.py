# SPDX-License-Identifier: BSD-2-Clause
"""What a process may do that runs foreign code: shaders, or the parsers of other people's formats.

Two parts of the kernel, both for ordinary users and in containers: Landlock says which files a process reaches,
and keeps its signals inside; seccomp allows the system calls that system_calls.py lists. Limits of memory, time
and file size are the process's own; counted.py counts what these do not bound. What is taken away stays so, for
the process and for what it starts. docs/adr/0046-sandbox.md says what this holds off, and what not.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import resource
import site
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from host_tools.support.messages import warn
from host_tools.support.system_calls import PROGRAM, ROWS, restrict
from trace_format.errors import GramophoneError

VARIABLE = "GRAMOPHONE_SANDBOX"
ON, REQUIRE, OFF = "on", "require", "off"
HOUR_S = 3600
OPEN_FILES = 256
WRITTEN_BYTES = 4 << 30  # more than a network, twice what a protobuf message can have


class SandboxError(GramophoneError):
    """A sandbox was required and cannot be had, or the variable says something else."""


@dataclass(frozen=True)
class Sandbox:
    """What is left to a process, besides the interpreter, its packages and the system's libraries for reading.

    Attributes:
        reads: files, or folders with all that is in them.
        writes: folders that it may change.
        program: the one that it may start; None: none.
        cpu_s: processor time of all threads in seconds, and time that may pass.
        memory_bytes: of addresses, beyond what the process has; None: as much as the machine has of memory. It can
            have memory in no other way: what RLIMIT_AS does not count, the system calls do not give.
        written_bytes: of each file that it writes, and of all together, its answer and sheets among them.
        sheets: files in memory (sheet.py) that it may have at a time; for a function, not a program.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    program: Path | None = None
    cpu_s: int = HOUR_S
    memory_bytes: int | None = None
    written_bytes: int = WRITTEN_BYTES
    sheets: int = 0

    @property
    def most_bytes(self) -> int:
        """`memory_bytes`, or the machine's."""
        return self.memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def wanted() -> bool:
    """Whether foreign code is to run in a sandbox; what is missing for it is a warning, once.

    Raises:
        SandboxError: it is required, and something is missing; or GRAMOPHONE_SANDBOX is none of its values.
    """
    mode = os.environ.get(VARIABLE, ON)
    if mode not in (ON, REQUIRE, OFF):
        raise SandboxError(f"{VARIABLE}: expected {ON}, {REQUIRE} or {OFF}, found {mode!r}")
    if mode == REQUIRE and (lacking := missing()):
        raise SandboxError(f"{VARIABLE}={REQUIRE}: {'; '.join(lacking)}")
    if mode == ON:
        _say_missing()
    return mode != OFF


@functools.cache
def _say_missing() -> None:
    if lacking := missing():
        warn(f"foreign code runs with a part of the sandbox only: {'; '.join(lacking)} ({VARIABLE})")


@functools.cache
def missing() -> tuple[str, ...]:
    """Which parts of a sandbox this machine does not have, and why; empty: none."""
    found = []
    landlock, why = _library("landlockpy")
    if landlock is None or not landlock.supported():
        found.append(f"no limit to files, {why or 'the kernel has no Landlock'}")
    seccomp, why = _library("pyseccomp")
    if seccomp is None:
        found.append(f"no limit to network and system calls, {why}")
    return tuple(found)


@functools.cache
def _library(name: str) -> tuple[ModuleType | None, str]:
    """A module, or None and why it cannot be had: pyseccomp needs libseccomp, of the system."""
    try:
        return importlib.import_module(name), ""
    except (ImportError, RuntimeError, OSError) as error:
        return None, f"{name}: {error}"


def confine(sandbox: Sandbox) -> None:
    """Confine this process, which must have one thread, for good.

    Raises:
        OSError: the kernel refuses; nothing foreign must run then.
    """
    landlock, seccomp = (_library(name)[0] for name in ("landlockpy", "pyseccomp"))
    _limit(sandbox)
    if landlock and landlock.supported():
        _restrict_files(landlock, sandbox)
    if seccomp:
        restrict(seccomp, ROWS + (PROGRAM if sandbox.program else ()))


def _limit(sandbox: Sandbox) -> None:
    """Bounds of memory and time, which the kernel keeps; where memory is short it ends this process first."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for kind, most in (
        (resource.RLIMIT_AS, now + sandbox.most_bytes),
        (resource.RLIMIT_FSIZE, sandbox.written_bytes),
        (resource.RLIMIT_CPU, sandbox.cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _restrict_files(landlock: Any, sandbox: Sandbox) -> None:
    rights = landlock.AccessFS
    read = rights.READ_FILE | rights.READ_DIR
    write = (
        read | rights.WRITE_FILE | rights.TRUNCATE | rights.MAKE_REG | rights.MAKE_DIR
        | rights.REMOVE_FILE | rights.REMOVE_DIR | rights.REFER
    )  # fmt: skip
    of_files = rights.READ_FILE | rights.WRITE_FILE | rights.TRUNCATE | rights.EXECUTE
    # Signals stay in the sandbox, those that the kernel sends for a file's owner too; from Linux 6.12 on.
    scope = landlock.Scope.SIGNAL | landlock.Scope.ABSTRACT_UNIX_SOCKET
    with landlock.Ruleset(scoped=scope) as rules:
        for paths, access in (
            ((*runtime(), *sandbox.reads), read),
            ((*sandbox.writes, Path(os.devnull)), write),
            (_started(sandbox.program), read | rights.EXECUTE),
        ):
            for path in paths:
                if path.exists():
                    rules.allow_path(path, access if path.is_dir() else access & of_files)
        rules.restrict()


def runtime() -> list[Path]:
    """What the interpreter, its packages and the C library read while they run; none of it is secret."""
    packages = Path(__file__).resolve().parents[2]
    ours = [packages / name for name in ("trace_format", "signing", "host_tools", "tee_replayer", "baremetal")]
    python = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    python += [Path(site.getusersitepackages())] if site.ENABLE_USER_SITE else []
    # Packages that a .pth file or PYTHONPATH adds; not every folder of sys.path, which may be the user's own.
    python += [Path(name) for name in sys.path if Path(name).name in ("site-packages", "dist-packages")]
    libraries = [Path(name) for name in ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")]
    library = sysconfig.get_config_var("LIBDIR")
    machine = [
        "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/dev/urandom", "/dev/zero",
        "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu",
        # Not all of /proc/self: its fd and map_files open again what is closed, or open for reading only.
        *(f"/proc/self/{name}" for name in ("auxv", "cmdline", "maps", "stat", "statm", "status")),
    ]  # fmt: skip
    return [*ours, *python, *libraries, *([Path(library)] if library else []), *map(Path, machine)]


def _started(program: Path | None) -> Iterable[Path]:
    """A program, and the loaders of dynamic ones, which the kernel starts in its place."""
    return [program, *Path("/").glob("lib*/ld-linux*"), *Path("/lib").glob("*/ld-linux*")] if program else []
