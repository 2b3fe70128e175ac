# SPDX-License-Identifier: BSD-2-Clause
"""The TA's own sources, compiled for this machine over a TEE that is played in this process."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path
from typing import Any

import cffi
import pytest

from host_tools.machine.errors import RecordError
from host_tools.runners.optee import build as optee
from host_tools.runners.optee import client
from host_tools.runners.replay import RunnerError
from host_tools.vgpu.binding import c_declarations
from trace_format import packing

SOURCES = client.SOURCES.with_name("ta")
SUCCESS, ACCESS_DENIED, BAD_PARAMETERS, NOT_SUPPORTED = 0, 0xFFFF0001, 0xFFFF0006, 0xFFFF000A
SHORT_BUFFER, BUSY, CORRUPT, NO_SPACE = 0xFFFF0010, 0xFFFF000D, 0xF0100001, 0xFFFF3041
BAD_FORMAT = 0xFFFF0005
OLDER, TRACE, COUNTER, LOG = 0x85A10001, 0x85A10002, 0x85A10003, 0x85A10004  # gramophone_ta.h
OLD_POLICY, TRUST_VERSION = 0x85A10005, 16
LOAD_BEGIN, LOAD_DATA, LOAD, DESCRIBE, SET_INPUT, RUN, GET_OUTPUT, UNLOAD, GET_LOG, DESCRIBE_TRACE = range(10)
LOG_OPEN, LOG_TAIL, GET_ENTRIES, ATTEST, DEVICE_KEY = range(11, 16)
NONE, VALUE, IN, OUT = 0, 1, 5, 6  # TEE_PARAM_TYPES
PUBLIC, USER, GROUP, TRUSTED_APP = 0, 1, 2, 0xF0000000  # TEE_LOGIN_*
PIECE = 64 << 10  # gramophone_ta.c
LINUX = uuid.UUID("58ac9ca0-2086-4683-a1b8-ec4bc08e01b6")  # policy.h
NOBODY = uuid.UUID(int=0)
HEADER = Path(__file__).with_name("fake_tee_api.h")
FUNCTIONS = """
    typedef union { struct { void *buffer; size_t size; } memref; struct { uint32_t a, b; } value; } TEE_Param;
    uint32_t TA_OpenSessionEntryPoint(uint32_t types, TEE_Param params[4], void **session);
    uint32_t TA_InvokeCommandEntryPoint(void *session, uint32_t command, uint32_t types, TEE_Param params[4]);
    void TA_CloseSessionEntryPoint(void *session);
"""


def compiled(folder: Path, policy: str, *, log: bool = False, trust: bool = False, networks: int = 0) -> Any:
    """The TA as a library, with the text of a policy.h."""
    try:
        optee.source(*optee.CORE)
    except (RecordError, RunnerError) as error:
        pytest.skip(f"OP-TEE's source or tools cannot be obtained: {error}")
    kit = optee.ta_dev_kit()
    (folder / "policy.h").write_text(policy)
    own = ("gramophone_ta.c", "log_tail.c", "rollback.c")
    for name in own:
        (folder / name).write_bytes((SOURCES / name).read_bytes())
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fPIC", "-shared", "-D__LP64__=1"]
    flags += ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    includes = [f"-I{path}" for path in (folder, SOURCES, *client.INCLUDES)] + [f"-isystem{kit / 'include'}"]
    if log:
        logs = client.SOURCES.parent.parent / "features" / "evidence"
        flags += ["-DGRAMOPHONE_LOG", "-DGRAMOPHONE_ATTEST", f"-I{logs}", "-include", str(logs / "attest.h")]
    flags += ["-DGRAMOPHONE_TRUST"] if trust else []
    if networks:
        flags += [f"-DGRAMOPHONE_NETWORKS={networks}", "-DGRAMOPHONE_STEPS", f"-DGRAMOPHONE_SCHEDULE={networks}"]
    sources = [*(folder / name for name in own), Path(__file__).with_name("fake_tee_api.c")]
    out = folder / "ta.so"
    subprocess.run(["gcc", *flags, *includes, "-DTRACE_LEVEL=1", "-o", str(out), *map(str, sources)], check=True)
    return out


class Ta:
    """The TA and what is played around it."""

    def __init__(self, library: Path) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(FUNCTIONS + c_declarations(HEADER.read_text()))
        self.lib = self.ffi.dlopen(str(library))
        self.clear()

    def clear(self) -> None:
        self.lib.fake_reset()
        self.log_in(USER, uuid.uuid5(LINUX, "uid=0"))

    def log_in(self, login: int, who: uuid.UUID) -> None:
        self.lib.fake_client(login, who.bytes_le)  # a TEE_UUID's numbers are the machine's own

    def open(self) -> int:
        session = self.ffi.new("void **")
        return int(self.lib.TA_OpenSessionEntryPoint(NONE, self.ffi.new("TEE_Param[4]"), session))

    def close(self) -> None:
        self.lib.TA_CloseSessionEntryPoint(self.ffi.NULL)

    def invoke(self, command: int, *values: tuple[int, int] | Any) -> int:
        """A command with numbers, or buffers: bytes go in, bytearrays come out (cut to what was answered)."""
        params, types, held = self.ffi.new("TEE_Param[4]"), 0, []
        for index, value in enumerate(values):
            if isinstance(value, tuple):
                params[index].value.a, params[index].value.b = value
                types |= VALUE << 4 * index
            else:
                held.append(self.ffi.from_buffer(value))
                params[index].memref.buffer = self.ffi.cast("void *", held[-1])
                params[index].memref.size = len(value)
                types |= (IN if isinstance(value, bytes) else OUT) << 4 * index
        result = int(self.lib.TA_InvokeCommandEntryPoint(self.ffi.NULL, command, types, params))
        self.sizes = [params[index].memref.size for index in range(4)]
        for buffer in held:
            self.ffi.release(buffer)
        return result

    def load(self, version: int, name: str = "lenet") -> int:
        """LOAD of a trace that the pseudo-TA takes."""
        self.lib.fake_manifest(manifest(name, version))
        return self.invoke(LOAD)

    @property
    def calls(self) -> list[tuple[int, int, int, int, int]]:
        rows = (self.lib.fake_call(index) for index in range(self.lib.fake_count()))
        return [(row.command, row.types, row.a, row.b, row.bytes) for row in rows]


def manifest(name: str, version: int) -> bytes:
    """A manifest with this name and version; what else is in it the TA does not look at."""
    fields = packing.unpack("manifest", bytes(512), 0)
    return packing.pack("manifest", {**fields, "name": name, "security_version": version})
