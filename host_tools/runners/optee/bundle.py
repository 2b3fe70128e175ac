# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee` as one file for a device: `python -m host_tools.runners.optee.bundle -o gramophone-tee`.

Besides it, a device needs Python 3.11 or newer, cffi's backend (Debian: python3-cffi-backend), libteec (Debian:
libteec2) and libgramophone_tee.so.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from pathlib import Path

from host_tools.support.device_extras import ADDED
from host_tools.support.files import write_atomically

ROOT = Path(__file__).resolve().parents[3]


def _file(module: str) -> str:
    """A module's file, by the folder of this package."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py"


FILES = (
    "host_tools/__init__.py",
    *(
        f"host_tools/support/{name}.py"
        for name in ("__init__", "device_extras", "files", "messages", "npy", "version")
    ),
    *(f"host_tools/device/{name}.py" for name in ("__init__", "_binding", "cli", "evidence", "library", "slots")),
    *(_file(name) for name, more in ADDED.items() for name in (name, *more)),
    "trace_format/__init__.py",
    *(f"trace_format/{name}.py" for name in ("errors", "files", "limits")),
)
START = b"#!/usr/bin/env python3\n"  # as in the standard library's zipapp
MAIN = b"import sys\n\nfrom host_tools.device.cli import main\n\nsys.exit(main())\n"


def bundle() -> bytes:
    """The program; the same bytes for the same sources."""
    out = io.BytesIO(START)
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "w") as archive:
        for name in FILES:
            archive.writestr(zipfile.ZipInfo(name), (ROOT / name).read_bytes())
        archive.writestr(zipfile.ZipInfo("__main__.py"), MAIN)
    return out.getvalue()


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(prog="python -m host_tools.runners.optee.bundle", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    write_atomically(parser.parse_args().output, bundle(), mode=0o777)
    return 0


if __name__ == "__main__":
    sys.exit(main())
