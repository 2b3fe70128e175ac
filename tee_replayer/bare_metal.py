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
MACHINE = "arm"  # of s2n-bignum: all boards are AArch64


def write(board: Board, folder: Path, libraries: crypto.Libraries, evidence: Evidence) -> None:
    """Write a board's files.

    Args:
        board: which; it has a port.
        folder: to write to; it has replayer.c and replayer.h.
        libraries: the crypto libraries, both of them.
        evidence: what the device says of its replays.
    """
    write_crypto(folder, libraries, evidence)
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


def write_crypto(folder: Path, libraries: crypto.Libraries, evidence: Evidence) -> None:
    """Write the crypto seam, crypto.c, and the libraries' files that it needs, in `bearssl` and `aws-lc`."""
    parts = ("bearssl_hash.c", "s2n_p256.c", *(("bearssl_log.c",) if evidence.log else ()))
    seam = [f'/* {SPDX} */\n#include "replayer.h"\n', *(amalgamate.part(HERE / "crypto" / name) for name in parts)]
    (folder / "crypto.c").write_text("\n".join(seam), encoding="utf-8")
    _copy_crypto(libraries, folder, evidence)


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


def _bearssl_sources(evidence: Evidence) -> tuple[str, ...]:
    return (*crypto.HASH, *evidence.crypto)


def crypto_sources(evidence: Evidence) -> list[str]:
    """Files of the libraries that are compiled, by their paths in a generated folder."""
    return [
        *(f"bearssl/{name}" for name in _bearssl_sources(evidence)),
        *map(_place, crypto.s2n_sources(MACHINE)),
    ]


def _crypto_objects(evidence: Evidence) -> str:
    return " \\\n  ".join(f"{name.removesuffix('.c').removesuffix('.S')}.o" for name in crypto_sources(evidence))


def _place(name: str) -> str:
    """Of a file of AWS-LC in a generated folder."""
    return name.replace("third_party/s2n-bignum/s2n-bignum-imported", "s2n-bignum")


def _copy_crypto(libraries: crypto.Libraries, to: Path, evidence: Evidence) -> None:
    bearssl, aws_lc = libraries.bearssl, libraries.aws_lc
    assert aws_lc is not None
    included = crypto.INCLUDED if evidence.attestation else ()
    names = [*crypto.HEADERS, crypto.LICENCE, *_bearssl_sources(evidence), *included]
    names += [str(path.relative_to(bearssl)) for path in (bearssl / "inc").glob("*.h")]
    files = {bearssl / name: to / "bearssl" / name for name in names}
    names = [crypto.AWS_LC_LICENCE, *crypto.s2n_sources(MACHINE), *crypto.s2n_headers(MACHINE)]
    files |= {aws_lc / name: to / _place(name) for name in names}
    for path, target in files.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
