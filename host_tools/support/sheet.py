# SPDX-License-Identifier: BSD-2-Clause
"""Bytes in memory that lie elsewhere in it, too, and take more of it only where they are changed there."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterable

import cffi

from trace_format.errors import GramophoneError

MAP_FIXED = 0x10  # Linux; the mmap module does not name it
MAP_NORESERVE = 0x4000  # Linux; the mmap module names it since Python 3.13
_BUFFER_BYTES = 1 << 20
_given: list[int] | None = None
_laid: weakref.WeakKeyDictionary[mmap.mmap, set[Sheet]] = weakref.WeakKeyDictionary()  # a file may be used again

_ffi = cffi.FFI()
_ffi.cdef("""
    void *mmap(void *address, size_t size, int protection, int flags, int file, int64_t offset);
    int malloc_trim(size_t keep);
""")
_libc = _ffi.dlopen(None)


class NoSheetError(GramophoneError):
    """There is no file for one more sheet."""


class Sheet(mmap.mmap):
    """A file without a name, mapped to be read.

    As a mapping of its own it also goes back to the system when nobody has it any more, which malloc's memory need
    not do, whatever its size: what is freed once raises the size from which malloc makes a mapping (mallopt(3)).
    """

    descriptor: int

    @classmethod
    def of(cls, pieces: Iterable[bytes | memoryview]) -> Sheet | None:
        """One that holds pieces, one after the other; None: they have no bytes.

        Raises:
            NoSheetError: of those that there are, all are in use.
        """
        descriptor = _take()
        try:
            with open(descriptor, "wb", _BUFFER_BYTES, closefd=False) as file:
                file.writelines(pieces)
                file.flush()
                if not file.tell():
                    _put_back(descriptor)
                    return None
                sheet = cls(descriptor, file.tell(), access=mmap.ACCESS_READ)
        except BaseException:
            _put_back(descriptor)
            raise
        sheet.descriptor = descriptor
        weakref.finalize(sheet, _put_back, descriptor)
        return sheet

    def part(self, start: int, size: int) -> bytes:
        """Some of its bytes, without mapping the pages that they lie in, and those around them."""
        return os.pread(self.descriptor, size, start)

    def lay(self, memory: mmap.mmap, at: int, start: int, size: int) -> None:
        """Let whole pages of other memory hold what is here, until somebody writes to them.

        Args:
            memory: private, and writable.
            at, size: where in it, in bytes.
            start: where here.

        Raises:
            OSError: the system has no room for mappings.
        """
        _check(self, start, size)
        _map(memory, at, size, mmap.MAP_PRIVATE, self.descriptor, start)
        if _given is not None:
            _laid.setdefault(memory, set()).add(self)


def take_from(descriptors: Iterable[int]) -> None:
    """From now on sheets are these empty files of `new_file`.

    In a sandbox none can be made, because nothing bounds how much memory they would take together.
    """
    global _given
    _given = list(descriptors)


def new_file() -> int:
    """An empty file without a name, in memory."""
    return os.memfd_create("gramophone")


def _take() -> int:
    if _given is None:
        return new_file()
    if not _given:
        raise NoSheetError
    return _given.pop()


def _put_back(descriptor: int) -> None:
    if _given is None:
        os.close(descriptor)
    else:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        _given.append(descriptor)


def blank(memory: mmap.mmap, at: int, size: int) -> None:
    """Let whole pages of private memory be zeros that take no memory, whatever lay there."""
    _map(memory, at, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)


def give_back() -> None:
    """Before memory is needed for something else: what malloc keeps of what was freed goes back to the system."""
    _libc.malloc_trim(0)


def sheet_of(buffer: bytes | memoryview) -> Sheet | None:
    """The sheet that a buffer is, if it is one as a whole."""
    owner = buffer.obj if isinstance(buffer, memoryview) else None
    return owner if isinstance(owner, Sheet) and len(owner) == len(buffer) else None


def _check(memory: mmap.mmap, at: int, size: int) -> None:
    if not 0 <= at <= at + size <= len(memory):
        raise ValueError(f"{size} bytes from {at} of memory of {len(memory)}")


def _map(memory: mmap.mmap, at: int, size: int, flags: int, descriptor: int, start: int) -> None:
    _check(memory, at, size)
    place = _ffi.from_buffer(memory) + at
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    if _libc.mmap(place, size, protection, flags | MAP_FIXED, descriptor, start) != place:
        raise OSError(_ffi.errno, os.strerror(_ffi.errno))
