# SPDX-License-Identifier: BSD-2-Clause
"""The libteec that plays the replayer in this process (fake_libteec.c), and `gramophone-tee` over it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import cffi
import pytest

from host_tools.device import cli
from host_tools.runners.optee import client
from host_tools.vgpu.binding import c_declarations

HEADER = Path(__file__).with_name("fake_libteec.h")
SLOT_BYTES = (256 << 10) + 5  # more than one piece of what gramophone_tee.c sends


class Fake:
    """The libteec of fake_libteec.c, and the library built over it."""

    def __init__(self, teec: Path, built: Path) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(c_declarations(HEADER.read_text()))
        # It has libteec's own name, so that the library finds it where it looks for libteec.
        self.lib = self.ffi.dlopen(str(teec), self.ffi.RTLD_GLOBAL | self.ffi.RTLD_NOW)
        self.built = str(built)

    @property
    def calls(self) -> list[tuple[int, int, int, int, int]]:
        """(command, types, a, b, bytes) of each call since the reset."""
        rows = (self.lib.fake_call(index) for index in range(self.lib.fake_count()))
        return [(row.command, row.types, row.a, row.b, row.bytes) for row in rows]

    def clear(self, slot_bytes: int = SLOT_BYTES) -> None:
        self.lib.fake_reset(slot_bytes)

    @property
    def left_open(self) -> list[int]:
        """Contexts, sessions, pieces of shared memory."""
        return [self.lib.fake_state(which) for which in range(3)]


def made(folder: Path) -> Fake:
    """Compile it into a folder, and the client library over it.

    Raises:
        RecordError: libteec's header cannot be obtained.
    """
    headers = [f"-I{path}" for path in (client.libteec() / "include", client.SOURCES, *client.INCLUDES)]
    teec = folder / "libteec.so"
    source = Path(__file__).with_name("fake_libteec.c")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,-soname,libteec.so.2"]
    subprocess.run(["gcc", *flags, *headers, "-o", str(teec), str(source)], check=True)
    return Fake(teec, client.compile_library(folder / "o", "", folder))


def run(fake: Fake, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    """`gramophone-tee` with --json: its exit status and its object."""
    status = cli.main([*map(str, arguments), "--json", "--library", fake.built])
    shown = capsys.readouterr()
    assert ("error: " in shown.err) == (status != 0)
    found: dict[str, Any] = json.loads(shown.out)
    assert found["ok"] == (status == 0)
    return status, found
