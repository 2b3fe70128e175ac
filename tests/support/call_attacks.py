# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel offers hostile code, call by call: signals, timers, I/O that tells of its end, other processes,
memory. Each attack does it and returns, or raises OSError. Those of `KILLS` kill `Victim.number`."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pyseccomp

Attack = Callable[[Path], None]
# Numbers that are the same on all machines, of calls that libseccomp may be too old for.
NEWER = {"fchmodat2": 452, "setxattrat": 463}
F_SETSIG, F_SETOWN_EX, F_SETPIPE_SZ = 10, 15, 1031  # asm-generic/fcntl.h, linux/fcntl.h
FIOASYNC, SIOCSPGRP = 0x5452, 0x8902  # asm-generic/ioctls.h, sockios.h
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602  # linux/fs.h
PTRACE_SEIZE, PTRACE_O_EXITKILL = 0x4206, 1 << 20  # linux/ptrace.h
SI_QUEUE = -1  # asm-generic/siginfo.h
HELD: list[Any] = []  # memory and files that an attack keeps


class Victim:
    """A process of the same user, outside of all sandboxes."""

    number = 0


@contextmanager
def victim() -> Iterator[Popen[bytes]]:
    """A victim, while it is one."""
    with Popen(["/bin/sleep", "600"]) as process:
        Victim.number = process.pid
        try:
            yield process
        finally:
            process.kill()


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> int:
    """Make a system call by its name, with integers and buffers."""
    number = NEWER.get(name) or pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    if number < 0:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    made = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    function = libc().syscall
    function.restype = ctypes.c_long
    return checked(function(ctypes.c_long(number), *made))


def calls(name: str, *arguments: Any) -> Attack:
    """An attack that is one call; a string among the arguments is a path in the folder, a function gives one."""

    def attack(folder: Path) -> None:
        given = [bytes(folder / one) if isinstance(one, str) else one for one in arguments]
        call(name, *(one() if callable(one) else one for one in given))

    return attack


def its() -> int:
    return Victim.number


def siginfo() -> Any:
    return ctypes.create_string_buffer(struct.pack("iii", signal.SIGKILL, 0, SI_QUEUE), 128)


def by_a_pidfd(_folder: Path) -> None:
    call("pidfd_send_signal", call("pidfd_open", its(), 0), signal.SIGKILL, None, 0)


def _owned(number: int) -> None:
    """What happens at an open file kills the victim."""
    fcntl.fcntl(number, fcntl.F_SETOWN, its())
    fcntl.fcntl(number, F_SETSIG, signal.SIGKILL)


def by_async_pipe(_folder: Path) -> None:
    end, other = os.pipe()
    _owned(end)
    fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC)
    os.write(other, b"x")


def by_async_pipe_of_a_group(_folder: Path) -> None:
    end, other = os.pipe()
    fcntl.fcntl(end, F_SETOWN_EX, struct.pack("ii", 1, its()))  # F_OWNER_PID
    fcntl.fcntl(end, F_SETSIG, signal.SIGKILL)
    fcntl.ioctl(end, FIOASYNC, struct.pack("i", 1))
    os.write(other, b"x")


def by_async_socket(_folder: Path) -> None:
    one, other = socket.socketpair()
    fcntl.ioctl(one, SIOCSPGRP, struct.pack("i", its()))
    fcntl.fcntl(one, F_SETSIG, signal.SIGKILL)
    fcntl.ioctl(one, FIOASYNC, struct.pack("i", 1))
    other.send(b"x")


def by_upper_bits(_folder: Path) -> None:
    """The kernel takes 32 of them."""
    end, other = os.pipe()
    for what, value in (
        (fcntl.F_SETOWN, its()), (F_SETSIG, signal.SIGKILL), (fcntl.F_SETFL, os.O_ASYNC),
    ):  # fmt: skip
        call("fcntl", end, 1 << 32 | what, value)
    os.write(other, b"x")


def by_a_watched_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    fcntl.fcntl(number, fcntl.F_NOTIFY, fcntl.DN_CREATE)
    _owned(number)
    (folder / "made").write_bytes(b"")


def by_a_lease(folder: Path) -> None:
    number = os.open(folder / "secret", os.O_RDONLY)
    fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    _owned(number)
    try:
        os.open(folder / "secret", os.O_WRONLY | os.O_NONBLOCK)
    except BlockingIOError:  # the lease is being broken, of which its owner hears
        time.sleep(0.01)


def by_tracing(_folder: Path) -> None:
    """It dies with the attacker."""
    call("ptrace", PTRACE_SEIZE, its(), 0, PTRACE_O_EXITKILL)


def by_calls_of_32_bits(_folder: Path) -> None:
    """kill(2) of i386, as machine code: a filter that knows one table of numbers only is passed by."""
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "no i386")
    code = b"\x53\xb8\x25\x00\x00\x00\xbb" + struct.pack("<i", its()) + b"\xb9\x09\x00\x00\x00\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    made = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    HELD.append(page)
    if (found := made()) < 0:
        raise OSError(-found, os.strerror(-found))


KILLS: dict[str, Attack] = {
    "kill_by_kill": calls("kill", its, signal.SIGKILL),
    "kill_by_tkill": calls("tkill", its, signal.SIGKILL),
    "kill_by_tgkill": calls("tgkill", its, its, signal.SIGKILL),
    "kill_by_upper_bits_of_kill": calls("kill", lambda: 1 << 32 | its(), signal.SIGKILL),
    "kill_by_rt_sigqueueinfo": calls("rt_sigqueueinfo", its, signal.SIGKILL, siginfo),
    "kill_by_rt_tgsigqueueinfo": calls("rt_tgsigqueueinfo", its, its, signal.SIGKILL, siginfo),
    "kill_by_a_pidfd": by_a_pidfd,
    "kill_by_async_pipe": by_async_pipe,
    "kill_by_async_pipe_of_a_group": by_async_pipe_of_a_group,
    "kill_by_async_socket": by_async_socket,
    "kill_by_upper_bits": by_upper_bits,
    "kill_by_a_watched_folder": by_a_watched_folder,
    "kill_by_a_lease": by_a_lease,
    "kill_by_tracing": by_tracing,
    "kill_by_calls_of_32_bits": by_calls_of_32_bits,
}


def event(kind: int, value: int = 0) -> Any:
    """A sigevent (linux asm-generic/siginfo.h): kinds are SIGEV_SIGNAL, SIGEV_THREAD_ID."""
    data = struct.pack("qiii", 0, signal.SIGALRM, kind, value)
    return lambda: ctypes.create_string_buffer(data, 64)


def spare(size: int = 256) -> Callable[[], Any]:
    """Room for what a call says."""
    return lambda: ctypes.create_string_buffer(size)


def spans() -> Any:
    """An iovec, of this process and of a fork of it."""
    place = ctypes.create_string_buffer(8)
    HELD.append(place)
    return ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(place), 1), 16)


def some_cpus() -> Any:
    return ctypes.create_string_buffer(b"\xff", 8)


def seconds() -> Any:
    return ctypes.create_string_buffer(struct.pack("qqqq", 0, 0, 600, 0))


def perf() -> Any:
    """A perf_event_attr: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, exclude_kernel."""
    return ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 112, 1, 0, 0, 0, 1 << 5), 112)


def with_a_queue(_folder: Path) -> None:
    name = f"gramophone-{os.getpid()}".encode()
    number = call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, None)
    call("mq_unlink", name)
    call("mq_notify", number, event(0)())


def with_a_file_of(kind: str, *arguments: Any) -> Attack:
    """A call whose first argument is "secret", open for reading: Landlock does not know what it changes."""

    def attack(folder: Path) -> None:
        with open(folder / "secret", "rb", buffering=0) as file:
            calls(kind, file.fileno(), *arguments)(folder)

    return attack


def lock(folder: Path) -> None:
    """Another process waits for it, for ever."""
    with open(folder / "secret", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def lend_a_file(_folder: Path) -> None:
    call("pidfd_getfd", call("pidfd_open", its(), 0), 0, 0)


def advise_another(_folder: Path) -> None:
    call("process_madvise", call("pidfd_open", its(), 0), spans(), 0, 20, 0)  # MADV_COLD


def xattr() -> Any:
    """A struct xattr_args (linux/xattr.h): value, size, flags."""
    value = ctypes.create_string_buffer(b"x")
    HELD.append(value)
    return ctypes.create_string_buffer(struct.pack("QII", ctypes.addressof(value), 1, 0), 16)


def clone(_folder: Path) -> None:
    if not call("clone", signal.SIGURG, 0, 0, 0, 0):
        os._exit(0)


def flags_by_a_descriptor(folder: Path) -> None:
    with open(folder / "secret", "rb") as file:
        flags = ctypes.create_string_buffer(8)
        call("ioctl", file.fileno(), FS_IOC_GETFLAGS, flags)
        flags[0] = bytes([flags.raw[0] | 0x40])  # FS_NODUMP_FL
        call("ioctl", file.fileno(), FS_IOC_SETFLAGS, flags)


SELF = os.getpid
OTHERS: dict[str, Attack] = {
    "timer_create_with_a_signal": calls("timer_create", 0, event(0), spare()),
    "timer_create_with_a_thread": calls("timer_create", 0, lambda: event(4, os.getpid())(), spare()),
    "setitimer": calls("setitimer", 0, seconds, None),
    "timerfd_create": calls("timerfd_create", 1, 0),
    "signalfd": calls("signalfd4", -1, spare(8), 8, 0),
    "eventfd": calls("eventfd2", 0, 0),
    "epoll": calls("epoll_create1", 0),
    "inotify": calls("inotify_init1", 0),
    "fanotify": calls("fanotify_init", 0, 0),
    "aio": calls("io_setup", 1, spare()),
    "io_uring": calls("io_uring_setup", 1, spare()),
    "message_queue": with_a_queue,
    "system_v_queue": calls("msgget", 0, 0o1600),
    "system_v_semaphore": calls("semget", 0, 1, 0o1600),
    "perf_event": calls("perf_event_open", perf, 0, -1, -1, 0),
    "a_signal_when_the_parent_ends": calls("prctl", 1, signal.SIGKILL, 0, 0, 0),
    "let_others_look": calls("prctl", 4, 1, 0, 0, 0),
    "adopt_orphans": calls("prctl", 36, 1, 0, 0, 0),
    "a_process_that_signals_at_its_end": clone,
    "read_another_process": calls("process_vm_readv", its, spans, 1, spans, 0, 0),
    "write_another_process": calls("process_vm_writev", its, spans, 1, spans, 0, 0),
    "compare_processes": calls("kcmp", SELF, its, 0, 0, 0),
    "limit_another_process": calls("prlimit64", its, 7, None, spare(16)),
    "advise_another_process": advise_another,
    "take_a_file_of_another_process": lend_a_file,
    "schedule_another_process": calls("sched_setaffinity", its, 8, some_cpus),
    "priority_of_io": calls("ioprio_set", 1, its, 0x6004),
    "handle_page_faults": calls("userfaultfd", 1),
    "a_filter_of_its_own": calls("seccomp", 2, 0, spare()),  # SECCOMP_GET_ACTION_AVAIL
    "keys": calls("keyctl", 0, -3, 1),
    "splice": lambda _: HELD.append([call("splice", *_full_pipe(), 1, 0)]),
    "lock_a_file": lock,
    "mode_by_a_descriptor": with_a_file_of("fchmod", 0o777),
    "times_by_a_descriptor": with_a_file_of("utimensat", None, None, 0),
    "attribute_by_a_descriptor": with_a_file_of("fsetxattr", b"user.x", b"x", 1, 0),
    "flags_by_a_descriptor": flags_by_a_descriptor,
    "attribute_by_a_newer_call": calls("setxattrat", -100, "secret", 0, b"user.x", xattr, 16),
    "mode_by_a_newer_call": calls("fchmodat2", -100, "secret", 0o777, 0),
}


def _full_pipe() -> tuple[int, None, int, None]:
    """The ends of two pipes, the first of which has a byte."""
    (end, other), (_, last) = os.pipe(), os.pipe()
    os.write(other, b"x")
    return end, None, last, None


PIECE, PIECES = 8 << 20, 40


def _files(made: Callable[[Path, int], int]) -> Attack:
    """Files that are kept open, each filled."""

    def attack(folder: Path) -> None:
        for index in range(PIECES):
            HELD.append(os.fdopen(made(folder, index), "wb", buffering=0))
            assert HELD[-1].write(bytes(PIECE)) == PIECE

    return attack


def _mapped(flags: int) -> Attack:
    def attack(_folder: Path) -> None:
        for _ in range(PIECES):
            HELD.append(mmap.mmap(-1, PIECE, flags=flags))
            HELD[-1].write(bytes([1]) * PIECE)

    return attack


def secret_memory(_folder: Path) -> None:
    for _ in range(PIECES):
        number = call("memfd_secret", 0)
        os.ftruncate(number, PIECE)
        HELD.append(mmap.mmap(number, PIECE))
        HELD[-1].write(bytes([1]) * PIECE)
        os.close(number)


def system_v(_folder: Path) -> None:
    for _ in range(PIECES):
        number = call("shmget", 0, PIECE, 0o1600)
        place = call("shmat", number, None, 0)
        call("shmctl", number, 0, None)
        ctypes.memset(place, 1, PIECE)


def pipes(_folder: Path) -> None:
    for _ in range(PIECES):
        end, other = os.pipe()
        fcntl.fcntl(other, F_SETPIPE_SZ, 1 << 20)
        os.write(other, bytes(1 << 20))
        HELD.append(end)


def in_a_folder(folder: Path, index: int) -> int:
    return os.open(folder / f"gramophone-{os.getpid()}-{index}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def in_no_folder(folder: Path, index: int) -> int:
    number = in_a_folder(folder, index)
    os.unlink(folder / f"gramophone-{os.getpid()}-{index}")
    return number


# Each takes PIECES times PIECE bytes, but pipes.
MEMORY: dict[str, Attack] = {
    "private_memory": _mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
    "shared_memory": _mapped(mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
    "memfds": _files(lambda *_: call("memfd_create", b"x", 0)),
    "posix_shared_memory": _files(lambda _, index: in_no_folder(Path("/dev/shm"), index)),
    "files": _files(in_a_folder),
    "files_without_a_name": _files(in_no_folder),
    "secret_memory": secret_memory,
    "system_v_memory": system_v,
    "pipes": pipes,
}
ATTACKS = KILLS | OTHERS
