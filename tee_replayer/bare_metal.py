# SPDX-License-Identifier: BSD-2-Clause
"""What a bare-metal replayer has besides the core: port, start-up, Makefile and the crypto library's files."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

from tee_replayer import crypto
from tee_replayer.boards import Board
from trace_format.emit import GENERATED

HERE = Path(__file__).resolve().parent
# Files of baremetal/, and of the headers made from the schema, that every board takes.
_COMMON = (
    *("startup.S", "firmware.ld", "main.c", "port.h", "port.c", "string.S"),
    *("include/limits.h", "include/string.h"),
)
_HEADERS = ("gramophone_mailbox.h", "gramophone_board.h")


def write(board: Board, folder: Path, bearssl: Path, carveout_bytes: int | None) -> None:
    """Write a board's files.

    Args:
        board: which; it has a port.
        folder: to write to; it has replayer.c and replayer.h.
        bearssl: BearSSL's source tree.
        carveout_bytes: secure memory for traces; None: the board's own size.
    """
    seam = (HERE / "crypto" / "bearssl.c").read_text(encoding="utf-8")
    (folder / "crypto.c").write_text(
        seam.replace('#include "crypto.h"', '#include "replayer.h"'), encoding="utf-8"
    )
    ports = resources.files("baremetal")
    sources = (f"{board.port}.c", *board.parts)
    for name in (*_COMMON, *sources, f"{board.port}.h"):
        target = folder / ("board.h" if name == f"{board.port}.h" else name)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((ports / name).read_bytes())
    for name in _HEADERS:
        shutil.copyfile(GENERATED / name, folder / name)
    makefile = (HERE / "firmware" / "Makefile").read_text(encoding="utf-8")
    objects = " ".join(f"{Path(name).stem}.o" for name in sources)
    flags = f" -DGR_CARVEOUT_BYTES={carveout_bytes:#x}" if carveout_bytes else ""
    for mark, text in (("@PORT@", objects), ("@CRYPTO@", _crypto_objects()), (" @BOARD@", flags)):
        makefile = makefile.replace(mark, text)
    (folder / "Makefile").write_text(makefile, encoding="utf-8")
    shutil.copyfile(HERE / "firmware" / "size.py", folder / "size.py")
    _copy_crypto(bearssl, folder / "bearssl")


def _crypto_objects() -> str:
    return " \\\n  ".join(f"bearssl/{name.removesuffix('.c')}.o" for name in crypto.SOURCES)


def _copy_crypto(bearssl: Path, to: Path) -> None:
    headers = [*(bearssl / "inc").glob("*.h"), bearssl / "src" / "inner.h", bearssl / "src" / "config.h"]
    for path in [
        *headers,
        bearssl / crypto.LICENCE,
        *(bearssl / name for name in (*crypto.SOURCES, *crypto.INCLUDED)),
    ]:
        target = to / path.relative_to(bearssl)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
