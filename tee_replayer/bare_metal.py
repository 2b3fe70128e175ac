# SPDX-License-Identifier: BSD-2-Clause
"""What a bare-metal replayer has besides the core: port, start-up, Makefile and the crypto library's files."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

from tee_replayer import amalgamate, crypto
from tee_replayer.board_checks import Range
from tee_replayer.boards import Board
from tee_replayer.evidence import Evidence
from trace_format.emit import GENERATED
from trace_format.licence import SPDX

HERE = Path(__file__).resolve().parent
# Files of baremetal/, and of the headers made from the schema, that every board takes.
_COMMON = (
    *("startup.S", "firmware.ld", "main.c", "port.h", "port.c", "string.S"),
    *("include/limits.h", "include/string.h"),
)
_HEADERS = ("gramophone_mailbox.h", "gramophone_board.h")


def write(board: Board, folder: Path, bearssl: Path, evidence: Evidence) -> None:
    """Write a board's files.

    Args:
        board: which; it has a port.
        folder: to write to; it has replayer.c and replayer.h.
        bearssl: BearSSL's source tree.
        evidence: what the device says of its replays.
    """
    write_crypto(folder, bearssl, evidence)
    ports = resources.files("baremetal")
    for name in (*_COMMON, *(("evidence.c",) if evidence.log else ())):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((ports / name).read_bytes())
    for name, data in board.sources.items():
        (folder / name).write_bytes(data)
    (folder / "board.h").write_text(header(board), encoding="utf-8")
    for name in _HEADERS:
        shutil.copyfile(GENERATED / name, folder / name)
    makefile = (HERE / "firmware" / "Makefile").read_text(encoding="utf-8")
    objects = " ".join(f"{Path(name).stem}.o" for name in board.sources if not name.endswith(".h"))
    for mark, text in (("@PORT@", objects), ("@CRYPTO@", _crypto_objects(evidence))):
        makefile = makefile.replace(mark, text)
    (folder / "Makefile").write_text(makefile, encoding="utf-8")
    shutil.copyfile(HERE / "firmware" / "size.py", folder / "size.py")


def write_crypto(folder: Path, bearssl: Path, evidence: Evidence) -> None:
    """Write the crypto seam over BearSSL, crypto.c, and the files of BearSSL that it needs, in `bearssl`."""
    seam = (HERE / "crypto" / "bearssl.c").read_text(encoding="utf-8")
    seam = seam.replace('#include "crypto.h"', '#include "replayer.h"')
    if evidence.log:
        seam += "\n" + amalgamate.part(HERE / "crypto" / "bearssl_log.c")
    (folder / "crypto.c").write_text(seam, encoding="utf-8")
    _copy_crypto(bearssl, folder / "bearssl", evidence)


def header(board: Board) -> str:
    """The numbers of a board, as C, assembly and the linker script take them."""
    ranges = {**board.memory, **board.devices}
    if "power" not in ranges:
        ranges["power"] = Range(0, 0)  # the GPU is always on
    lines = []
    for name, found in ranges.items():
        lines += [
            f"#define GR_{name.upper()}_BASE {found.base:#x}",
            f"#define GR_{name.upper()}_BYTES {found.bytes:#x}",
        ]
    lines += [f"#define GR_{name.upper()} {number}" for name, number in board.constants.items()]
    return (
        f"/* {SPDX} */\n"
        f"/* Numbers of the board {board.name} ({Path(board.file).name}); generated, do not edit. Others come by\n"
        " * 'gramophone generate --board FILE', or 'make BOARD=HEADER', a header that defines all of these. */\n"
        "#ifndef GRAMOPHONE_BOARD_H\n#define GRAMOPHONE_BOARD_H\n\n" + "\n".join(lines) + "\n\n#endif\n"
    )


def _crypto_objects(evidence: Evidence) -> str:
    names = (*crypto.SOURCES, *evidence.crypto)
    return " \\\n  ".join(f"bearssl/{name.removesuffix('.c')}.o" for name in names)


def _copy_crypto(bearssl: Path, to: Path, evidence: Evidence) -> None:
    headers = [*(bearssl / "inc").glob("*.h"), bearssl / "src" / "inner.h", bearssl / "src" / "config.h"]
    for path in [
        *headers,
        bearssl / crypto.LICENCE,
        *(bearssl / name for name in (*crypto.SOURCES, *crypto.INCLUDED, *evidence.crypto)),
    ]:
        target = to / path.relative_to(bearssl)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
