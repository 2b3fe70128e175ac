# SPDX-License-Identifier: BSD-2-Clause
"""Makes `_binding.py`, the C library's declarations for cffi: `python -m host_tools.device.declarations`.

The module it writes needs only cffi's backend, not its parser of C, which takes seconds on a small device.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import cffi

from host_tools.support.files import write_atomically
from host_tools.support.sources import REPLAYER
from host_tools.vgpu.binding import c_declarations
from trace_format.emit import c_memory
from trace_format.files import read_file_text
from trace_format.licence import SPDX
from trace_format.schema import OPTEE, REPORT, TRACE

MODULE = "_binding"
TARGET = Path(__file__).with_name(f"{MODULE}.py")
STRUCTS = {"report": REPORT, "gramophone_slot": OPTEE, "gramophone_network": OPTEE, "manifest": TRACE}
CLIENT = REPLAYER / "optee" / "client" / "gramophone_tee.h"


def binding() -> str:
    """Text of `_binding.py`."""
    ffi = cffi.FFI()
    ffi.cdef("".join(c_memory.declaration(group, name) for name, group in STRUCTS.items()))
    ffi.cdef(c_declarations(read_file_text(CLIENT)))
    ffi.set_source(MODULE, None)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):  # it prints what it does
        path = Path(folder) / "binding.py"
        ffi.emit_python_code(str(path))
        return f"# {SPDX}\n{read_file_text(path)}"


if __name__ == "__main__":
    write_atomically(TARGET, binding().encode())
