# SPDX-License-Identifier: BSD-2-Clause
"""What hostile code would do on a host, as functions: each does it and returns, or raises OSError.

They take a folder, which is outside of every sandbox and holds the file "secret".
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import call_attacks
from tests.support.call_attacks import checked, libc
from trace_format.errors import GramophoneError

SECRET = b"a secret of the user's"


def read_a_file(folder: Path) -> None:
    assert (folder / "secret").read_bytes() == SECRET


def list_a_folder(folder: Path) -> None:
    assert os.listdir(folder)


def write_a_file(folder: Path) -> None:
    (folder / "written").write_bytes(b"x")


def change_a_file(folder: Path) -> None:
    with open(folder / "secret", "r+b") as file:
        file.write(b"A")


def truncate_a_file(folder: Path) -> None:
    os.truncate(folder / "secret", 0)


def remove_a_file(folder: Path) -> None:
    os.unlink(folder / "secret")


def rename_a_file(folder: Path) -> None:
    os.rename(folder / "secret", folder / "other")


def link_a_file(folder: Path) -> None:
    os.link(folder / "secret", folder / "linked")


def make_a_link(folder: Path) -> None:
    os.symlink("/", folder / "root")


def make_a_folder(folder: Path) -> None:
    os.mkdir(folder / "made")


def make_a_fifo(folder: Path) -> None:
    os.mkfifo(folder / "fifo")


def change_a_mode(folder: Path) -> None:
    os.chmod(folder / "secret", 0o777)


def change_an_owner(folder: Path) -> None:
    os.chown(folder / "secret", os.getuid(), os.getgid())


def change_a_time(folder: Path) -> None:
    os.utime(folder / "secret", (0, 0))


def watch_a_folder(folder: Path) -> None:
    number = libc().inotify_init()
    checked(number)
    checked(libc().inotify_add_watch(number, bytes(folder), 0x2))


def open_a_socket(_folder: Path) -> None:
    socket.socket().close()


def open_a_local_socket(_folder: Path) -> None:
    socket.socket(socket.AF_UNIX).close()


def make_a_pair_of_sockets(_folder: Path) -> None:
    for end in socket.socketpair():
        end.close()


def fork(_folder: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def start_a_program(folder: Path) -> None:
    child = os.posix_spawn("/bin/sh", ["sh", "-c", f"echo > '{folder}/started'"], {})
    os.waitpid(child, 0)


def signal_the_parent(_folder: Path) -> None:
    os.kill(os.getppid(), 0)


def signal_all(_folder: Path) -> None:
    os.kill(1, 0) if os.getuid() == 0 else os.kill(os.getppid(), 0)


def signal_a_thread_of_the_parent(_folder: Path) -> None:
    call_attacks.call("tgkill", os.getppid(), os.getppid(), 0)


def look_into_the_parent(_folder: Path) -> None:
    with open(f"/proc/{os.getppid()}/maps", "rb") as file:
        assert file.read(1)


def leave_the_group(_folder: Path) -> None:
    os.setpgid(0, 0)


def raise_a_limit(_folder: Path) -> None:
    now = (ctypes.c_uint64 * 2)(*resource.getrlimit(resource.RLIMIT_NOFILE))
    checked(libc().setrlimit(resource.RLIMIT_NOFILE, now))  # Python would have another error


def change_priorities(_folder: Path) -> None:
    os.setpriority(os.PRIO_PROCESS, os.getppid(), os.getpriority(os.PRIO_PROCESS, os.getppid()))


def share_memory(_folder: Path) -> None:
    number = libc().shmget(0, 4096, 0o1600)
    checked(number)
    checked(libc().shmctl(number, 0, None))


def a_new_namespace(_folder: Path) -> None:
    checked(libc().unshare(0))


def handle_of_a_file(folder: Path) -> None:
    place, mount = ctypes.create_string_buffer(136), ctypes.c_int()
    ctypes.c_uint.from_buffer(place).value = 128
    checked(libc().name_to_handle_at(-100, bytes(folder / "secret"), place, ctypes.byref(mount), 0))


ATTACKS: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        read_a_file, list_a_folder, write_a_file, change_a_file, truncate_a_file, remove_a_file, rename_a_file,
        link_a_file, make_a_link, make_a_folder, make_a_fifo, change_a_mode, change_an_owner, change_a_time,
        watch_a_folder, open_a_socket, open_a_local_socket, make_a_pair_of_sockets, fork, start_a_program,
        signal_the_parent, signal_all, signal_a_thread_of_the_parent, look_into_the_parent, leave_the_group,
        raise_a_limit, change_priorities, share_memory, a_new_namespace, handle_of_a_file,
    )
} | call_attacks.ATTACKS  # fmt: skip
BY_FILES = {  # what only Landlock refuses
    "read_a_file", "list_a_folder", "write_a_file", "change_a_file", "remove_a_file", "rename_a_file",
    "look_into_the_parent",
}  # fmt: skip
ABSENT = (errno.ENOSYS, errno.EOPNOTSUPP)  # the kernel, or the file system, has no such thing
REFUSED = (errno.EPERM, errno.EACCES, errno.EXDEV)


def prepare(folder: Path) -> Path:
    """A folder to be attacked."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret").write_bytes(SECRET)
    return folder


def outcome(name: str, folder: Path) -> str:
    """What became of an attack: "done", "refused" or "not there: WHY"; anything else is raised."""
    try:
        ATTACKS[name](folder)
    except OSError as error:
        if error.errno in ABSENT:
            return f"not there: {error.strerror}"
        if error.errno not in REFUSED:
            raise
        return "refused"
    return "done"


def hostile(name: str, folder: Path) -> Callable[..., None]:
    """A function in place of any other: an error, which comes out of a sandbox, says what became of the attack."""

    def attack(*_: Any, **__: Any) -> None:
        raise GramophoneError(f"the attack was {outcome(name, folder)}")

    return attack


def untouched(folder: Path) -> bool:
    """Whether a folder is as `prepare` made it."""
    return os.listdir(folder) == ["secret"] and (folder / "secret").read_bytes() == SECRET


def exhaust_memory() -> int:
    return len(bytearray(1 << 46))


def run_forever() -> int:
    while True:
        pass


def sleep_forever() -> int:
    while True:
        time.sleep(1)
