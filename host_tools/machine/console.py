# SPDX-License-Identifier: BSD-2-Clause
"""What the guest sends over its console: framed files between the kernel's own lines.

A frame is one file:

    @gramophone begin NAME BYTES SHA256
    @<base64, any number of lines>
    @gramophone end NAME

Lines that do not begin with "@" belong to no frame (boot messages) and are skipped, also inside one. The sender
is the guest's init.
"""

import base64
import binascii
import hashlib
import re

from host_tools.machine.errors import RecordError

_BEGIN = re.compile(r"@gramophone begin (\S+) (\d{1,12}) ([0-9a-f]{64})")
_END = re.compile(r"@gramophone end (\S+)")


def parse_frames(console: bytes) -> dict[str, bytes]:
    """Files by name, in the order sent.

    Raises:
        RecordError: a frame that is cut short, nested, sent twice, not base64, or whose length or hash differs;
            names the console's line.
    """
    frames: dict[str, bytes] = {}
    name, size, digest, chunks = "", 0, "", list[str]()
    number = 0
    for number, raw in enumerate(console.split(b"\n"), start=1):
        line = raw.decode("ascii", errors="replace").rstrip("\r")
        if not line.startswith("@"):
            continue
        where = f"console line {number}"
        if line.startswith("@gramophone begin"):
            match = _BEGIN.fullmatch(line)
            if match is None:
                raise RecordError(f"{where}: expected '@gramophone begin NAME BYTES SHA256', found {line!r}")
            if name:
                raise RecordError(f"{where}: frame {match[1]} begins inside frame {name}")
            if match[1] in frames:
                raise RecordError(f"{where}: frame {match[1]} is sent twice")
            name, size, digest, chunks = match[1], int(match[2]), match[3], []
        elif line.startswith("@gramophone"):
            match = _END.fullmatch(line)
            if match is None or match[1] != name:
                raise RecordError(f"{where}: expected the end of frame {name or '(none is open)'}, found {line!r}")
            frames[name] = _decode(where, name, size, digest, "".join(chunks))
            name = ""
        elif name:
            chunks.append(line[1:])
        else:
            raise RecordError(f"{where}: data outside any frame: {line[:40]!r}")
    if name:
        raise RecordError(f"console line {number}: frame {name} is cut short, its end never came")
    return frames


def _decode(where: str, name: str, size: int, digest: str, text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise RecordError(f"{where}: frame {name} is not base64: {error}") from error
    if len(data) != size:
        raise RecordError(f"{where}: frame {name}: expected {size} bytes, found {len(data)}")
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise RecordError(f"{where}: frame {name}: expected sha256 {digest}, found {found}")
    return data
