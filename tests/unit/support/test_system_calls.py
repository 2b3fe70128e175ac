# SPDX-License-Identifier: BSD-2-Clause
"""The table of system calls: what it lets through, tried number by number. Attacks are in test_contained.py."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Sequence

import pyseccomp
import pytest

from host_tools.support import contained
from host_tools.support.system_calls import PROGRAM, ROWS, _alternatives
from tests.support.call_attacks import libc
from tests.support.sandbox import needs

# Calls that reach another process, a signal, a timer, shared memory, the network or an open file's attributes.
NEVER = """
    clone3 fork vfork ptrace process_vm_readv process_vm_writev pidfd_open pidfd_getfd pidfd_send_signal tkill
    rt_sigqueueinfo rt_tgsigqueueinfo timer_create timer_settime setitimer alarm timerfd_create signalfd
    signalfd4 io_setup io_submit io_uring_setup io_uring_enter io_uring_register mq_open mq_notify
    perf_event_open kcmp userfaultfd memfd_create memfd_secret shmget shmat shmctl socket socketpair connect
    bind sendmsg sendto flock fchmod fchown fsetxattr utimensat mkdir mkdirat mknod mknodat link linkat symlink
    symlinkat pipe pipe2 eventfd eventfd2 epoll_create1 inotify_init1 fanotify_init bpf keyctl seccomp unshare
    setns mount setrlimit sched_setattr setpriority personality mlock mlockall splice tee vmsplice fallocate
    chdir fchdir
"""
# Of those that have rows: arguments that must be among the ones that are given.
COMMANDS = {"F_SETFL", "F_SETOWN", "F_SETLEASE", "F_NOTIFY", "F_SETLK", "F_SETLKW", "F_SETPIPE_SZ", "F_ADD_SEALS"}


def names() -> set[str]:
    return {name for row in ROWS + PROGRAM for name in row.names.split()}


def test_what_reaches_others_has_no_row() -> None:
    assert not names() & set(NEVER.split())


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_no_command_of_fcntl_gives_signals_locks_or_memory(command: str) -> None:
    (row,) = (row for row in ROWS if row.names == "fcntl")
    assert getattr(fcntl, command) not in row.given[0].values


@pytest.mark.parametrize("name", ["fcntl", "ioctl", "prctl", "clone", "kill", "tgkill", "prlimit64", "mmap"])
def test_calls_of_many_meanings_have_their_arguments_listed(name: str) -> None:
    (row,) = (row for row in ROWS if name in row.names.split())
    assert row.given


def test_every_row_has_a_reason() -> None:
    assert all(row.why for row in ROWS + PROGRAM)


def test_alternatives_are_all_combinations() -> None:
    (row,) = (row for row in ROWS if row.names == "prlimit64")
    assert [[value for _, _, value in one] for one in _alternatives(row.given)] == [[0, 0], [os.getpid(), 0]]


# uretprobe and uprobe of x86-64, which the kernel does not ask seccomp about: made by a program itself, either is
# an illegal instruction to that program.
UNASKED = {335, 336}


def refused(number: int, *arguments: int) -> bool:
    """Whether the filter refuses a call; with such arguments none of those that are allowed does anything."""
    ctypes.set_errno(0)
    result = libc().syscall(*map(ctypes.c_long, (number, *arguments)))
    return bool(result == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS))


def let_through(numbers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Calls, by number and arguments, that a sandbox does not refuse."""
    needs(files=False)
    return contained.call("it", lambda: [list(one) for one in numbers if not refused(*one)], list[list[int]])


def number_of(name: str) -> int:
    return int(pyseccomp.resolve_syscall(pyseccomp.system_arch(), name))


def test_no_other_call_is_let_through() -> None:
    """Of all numbers; without arguments, for calls that are refused do not look at them."""
    allowed = {number_of(name) for row in ROWS for name in row.names.split()}
    assert let_through([[number] for number in range(1024) if number not in allowed | UNASKED]) == []


@pytest.mark.parametrize(
    ("name", "before", "values"),
    [
        ("fcntl", (-1,), range(2048)),
        ("ioctl", (-1,), range(1 << 16)),
        ("prctl", (), [*range(4096), 0x53564D41, 0x59616D61]),
        ("clone", (), [*range(256), *(1 << bit for bit in range(64)), 0x3D0F00 | 1, 0x3D0F00 ^ 0x10000]),
        ("kill", (), [*range(-4, 4), 1 << 32]),
        ("mmap", (0, 0, 0), [0x40000, 0x2000, 0x40021, 0x42022]),
    ],
)
def test_no_other_argument_is_let_through(name: str, before: tuple[int, ...], values: Sequence[int]) -> None:
    """By the low 32 bits, which is what the kernel looks at; all of clone's."""
    position = len(before)
    (row,) = (row for row in ROWS if name in row.names.split())
    (given,) = (given for given in row.given if given.position == position)
    upper = [] if name == "clone" else [1 << 32 | value & 0xFFFFFFFF for value in values]
    other = [value for value in (*values, *upper) if value & given.mask not in given.values]
    assert let_through([[number_of(name), *before, value] for value in other]) == []


def test_calls_of_another_machine_end_the_process() -> None:
    needs(files=False)
    if os.uname().machine != "x86_64":
        pytest.skip("x32 is of x86-64; i386 is among the attacks")
    with pytest.raises(contained.ContainedError, match="it ended with SIGSYS"):
        contained.call("it", lambda: refused(0x40000000 | 39), bool)
