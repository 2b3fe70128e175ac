# SPDX-License-Identifier: BSD-2-Clause
"""A file of try-gpu's port, compiled for this machine, over functions of a test instead of the system's."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from host_tools.extras.try_gpu.pack import PORT
from tee_replayer.generator.linux_folder import HERE as LINUX
from tests.support.bare_metal import require
from tests.support.places import CHECKOUT


def port_program(name: str, wrapped: Sequence[str], folder: Path) -> Path:
    """Compile NAME.c of the port with the tests' NAME_main.c, which has the wrapped functions.

    Args:
        name: of the file, without its ending.
        wrapped: functions of the system that the test has in their place.
        folder: for the program.
    """
    out = folder / name
    main = CHECKOUT / "tests/extras/try_gpu" / f"{name}_main.c"
    sources = [PORT / f"{name}.c", LINUX / "sysfs.c", main]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{PORT}", f"-I{LINUX}"]
    wrap = [f"-Wl,--wrap={function}" for function in wrapped]
    subprocess.run([require("gcc", "gcc"), *flags, *wrap, "-o", out, *sources], check=True)
    return out
