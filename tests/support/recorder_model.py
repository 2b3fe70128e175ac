# SPDX-License-Identifier: BSD-2-Clause
"""The recorder of captures for tests: the C code over a board's virtual GPU and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cffi

from host_tools.vgpu import binding, build
from tests.support import vgpu_model
from tests.support.mali_model import MaliBoard
from tests.support.vgpu_model import Board


class Recorder:
    """The C recorder, attached to a board.

    Attributes:
        time: virtual time, in nanoseconds.
        error: why there is no capture, after a close() that failed.
    """

    def __init__(self, board: Board | MaliBoard, path: Path, gpu_name: str = "v3d42") -> None:
        header = build.HERE / "recorder.h"
        self.ffi = cffi.FFI()
        self.ffi.cdef(binding.DECLARATIONS + binding.c_declarations(header.read_text()))
        self.lib: Any = self.ffi.dlopen(str(library()))
        self.time = 0
        self.error = ""
        self._now = self.ffi.callback("uint64_t(void *)", lambda _ctx: self.time)
        self._memory = self.ffi.callback("uint8_t *(void *, uint64_t, uint64_t *)", self._find)
        self.ram = board.ram
        gpu = self.ffi.cast("vgpu *", int(binding._ffi.cast("uintptr_t", board.gpu._gpu)))
        host = self.ffi.new("struct vgpu_host *", {"memory": self._memory})
        error = self.ffi.new("const char **")
        self.raw = self.lib.recorder_open(
            str(path).encode(), gpu_name.encode(), gpu, host, self._now, self.ffi.NULL, error
        )
        if self.raw == self.ffi.NULL:
            raise OSError(self.ffi.string(error[0]).decode())

    def _find(self, _ctx: Any, pa: int, length: Any) -> Any:
        if not self.ram.base <= pa < self.ram.base + self.ram.bytes.size:
            return self.ffi.NULL
        length[0] = self.ram.base + self.ram.bytes.size - pa
        return self.ffi.from_buffer("uint8_t[]", self.ram.bytes) + (pa - self.ram.base)

    def close(self) -> bool:
        """Finish the capture; whether there is one."""
        error = self.ffi.new("const char **")
        if self.lib.recorder_close(self.raw, error):
            return True
        self.error = self.ffi.string(error[0]).decode()
        return False


def library() -> Path:
    """The virtual GPU with the test double and the recorder in one."""
    sources = [*build.gpu_sources(vgpu_model.ENGINE_DOUBLE), *build.recorder_sources()]
    return build.shared_object("vgpu_recorder", sources)
