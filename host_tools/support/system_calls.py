# SPDX-License-Identifier: BSD-2-Clause
"""The system calls that a process in a sandbox may make, with their arguments; the kernel refuses all others.

`ROWS` is what the programs that run in sandboxes have been seen to call on x86-64, and what the same functions of
the C library call elsewhere (docs/adr/0046-sandbox.md says how to see it again). A new row needs a program that
fails without it, and a look at what the call reaches: another process, a signal, a timer, memory that RLIMIT_AS
does not count.
"""

from __future__ import annotations

import errno
import fcntl
import os
import termios
from dataclasses import dataclass
from typing import Any

INT = 0xFFFFFFFF  # the kernel looks at these bits of an argument that is an int
OWN = -1  # stands for the number of the process itself
THREAD = 0x3D0F00  # linux/sched.h: the flags with which the C library starts a thread, and no process
THREAD_OF_MUSL = 0x7D0F00
ARCH_SET_FS, CET_STATUS = 0x1002, 0x3001  # asm/prctl.h
PR_SET_NAME, PR_GET_NAME, PR_SET_VMA = 15, 16, 0x53564D41  # linux/prctl.h
MAP_OF_ALL = 0x40000 | 0x2000  # linux/mman.h: MAP_HUGETLB, MAP_LOCKED take memory from what all processes share
# Numbers that are the same on all machines, and came since 2021: a program has another way where they are missing.
FIRST_NEWER, LAST_NEWER = 450, 511


@dataclass(frozen=True)
class Given:
    """An argument that must have one of some values.

    Attributes:
        position: of the argument, from 0.
        values: that it may have in the bits of `mask`.
    """

    position: int
    values: tuple[int, ...]
    mask: int = INT


@dataclass(frozen=True)
class Row:
    """Calls that are allowed.

    Attributes:
        names: of the calls; of one machine or of all.
        why: what needs them, or why they reach nothing.
        given: what all of these arguments must be; none: they may be anything.
    """

    names: str
    why: str
    given: tuple[Given, ...] = ()


READS = "read pread64 readv preadv lseek _llseek getdents64 fadvise64"
WRITES = "write pwrite64 writev pwritev ftruncate fsync fdatasync"
FINDS = "access faccessat faccessat2 stat lstat fstat newfstatat statx statfs fstatfs readlink readlinkat getcwd"
CHANGES = "rename renameat renameat2 unlink unlinkat"
CLOCKS = "clock_gettime clock_getres gettimeofday time nanosleep clock_nanosleep times getrusage"
NAMES = "getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid uname sysinfo getcpu"
ROWS = (
    Row("open openat", "finding files: Landlock says which"),
    Row(FINDS, "attributes of files, which Landlock leaves to all"),
    Row(CHANGES, "results in its own folder: Landlock says which"),
    Row(READS, "files that are open"),
    Row(WRITES, "files that are open for writing; RLIMIT_FSIZE, and the count of what it wrote"),
    Row("close close_range dup dup2 dup3", "its own descriptors"),
    Row(
        "fcntl",
        "copies and flags of descriptors, their limit is RLIMIT_NOFILE; no owner, signal, lease, lock or seal",
        (Given(1, (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL)),),
    ),
    Row(
        "ioctl",
        "Python asks of each file whether it is a terminal, and has its descriptors closed at exec",
        (Given(1, (termios.TCGETS, termios.FIOCLEX)),),
    ),
    Row("poll ppoll select pselect6 pselect6_time64", "waiting, time.sleep"),
    Row("brk munmap mprotect mremap madvise mincore msync", "its own memory, which RLIMIT_AS counts"),
    Row("mmap mmap2", "as above: shared memory without a file counts too", (Given(3, (0,), MAP_OF_ALL),)),
    Row("mbind", "ONNX Runtime and ncnn place the stacks of their threads", (Given(5, (0,)),)),
    Row("rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall", "its own signals"),
    Row("kill", "abort", (Given(0, (OWN,)),)),
    Row("tgkill", "abort", (Given(0, (OWN,)),)),
    Row("clone", "threads", (Given(0, (THREAD, THREAD_OF_MUSL), ~0 & (1 << 64) - 1),)),
    Row("set_tid_address set_robust_list rseq exit exit_group", "the beginning and end of threads"),
    Row("futex futex_time64 sched_yield membarrier", "threads wait for each other"),
    Row("sched_getaffinity sched_getparam sched_getscheduler", "how many threads to start"),
    Row(
        "arch_prctl",
        "the loader of programs, for the memory of a thread",
        (Given(0, (ARCH_SET_FS, CET_STATUS)),),
    ),
    Row("prctl", "llvmpipe and Python name threads", (Given(0, (PR_SET_NAME, PR_GET_NAME, PR_SET_VMA)),)),
    Row("prlimit64", "reading its own limits", (Given(0, (0, OWN)), Given(2, (0,), (1 << 64) - 1))),
    Row("getrlimit ugetrlimit", "the same"),
    Row("getrandom", "seeds of hashes"),
    Row(CLOCKS, "clocks for reading, and sleep"),
    Row(NAMES, "what it and the machine are"),
)
PROGRAM = (Row("execve", "the start of the one program that Landlock lets it start"),)
# clone3 has its flags in memory, where a filter cannot look: the C library then takes clone.
UNKNOWN = ("clone3",)


def restrict(seccomp: Any, rows: tuple[Row, ...]) -> None:
    """Allow this process the calls of rows and no others, for good.

    What is refused is EPERM; what is newer than this table does not exist (ENOSYS). Calls as another machine has
    them, 32 bits wide say, end the process.

    Args:
        seccomp: the module pyseccomp.
        rows: as `ROWS`.
    """
    filter_ = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    filter_.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for row in rows:
        for name in row.names.split():
            for arguments in _alternatives(row.given):
                _add(seccomp, filter_, name, arguments)
    for number in (*UNKNOWN, *range(FIRST_NEWER, LAST_NEWER + 1)):
        filter_.add_rule(seccomp.ERRNO(errno.ENOSYS), number)
    filter_.load()


def _alternatives(given: tuple[Given, ...]) -> list[list[tuple[int, int, int]]]:
    """Position, mask and value of each argument, in all combinations that are allowed."""
    found: list[list[tuple[int, int, int]]] = [[]]
    for one in given:
        values = [os.getpid() if value == OWN else value for value in one.values]
        found = [[*old, (one.position, one.mask, value)] for old in found for value in values]
    return found


def _add(seccomp: Any, filter_: Any, name: str, arguments: list[tuple[int, int, int]]) -> None:
    compared = [
        seccomp.Arg(position, seccomp.MASKED_EQ, mask, value & mask) for position, mask, value in arguments
    ]
    try:
        filter_.add_rule(seccomp.ALLOW, name, *compared)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EDOM):  # no such call on this machine, or libseccomp is older
            raise
