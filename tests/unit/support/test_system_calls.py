# SPDX-License-Identifier: BSD-2-Clause
"""The table of system calls: what it must never let through. What it does to attacks is in test_contained.py."""

from __future__ import annotations

import fcntl
import os

import pytest

from host_tools.support.system_calls import PROGRAM, ROWS, _alternatives

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
