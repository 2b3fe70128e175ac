# SPDX-License-Identifier: BSD-2-Clause
"""What the guest sends over its console, framed files between the kernel's own lines, and what it says of a job.

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
from dataclasses import dataclass

from host_tools.machine.errors import RecordError
from host_tools.machine.placements import DRIVERS

_BEGIN = re.compile(r"@gramophone begin (\S+) (\d{1,12}) ([0-9a-f]{64})")
_END = re.compile(r"@gramophone end (\S+)")
# What drivers (v3d, panfrost) say when a job failed (Linux drivers/gpu/drm/{v3d,panfrost,scheduler}); the program
# that submitted it is not informed.
DRIVER_TROUBLE = re.compile(
    rf"({'|'.join(driver.module for driver in DRIVERS)}|\[drm).*"
    r"(MMU error|Resetting GPU|hang|gpu reset|Unhandled Page fault|js fault|timeout|\*ERROR\*)",
    re.IGNORECASE,
)


class ProgramError(RecordError):
    """The guest's program ended with a status that is not 0.

    Args:
        status: that status.
        output: all that the program printed.
    """

    def __init__(self, status: int, output: str) -> None:
        last = last_lines(output.encode(), 15)
        super().__init__(f"the guest's program failed with status {status}: {last}")
        self.output = output


@dataclass(frozen=True)
class GuestResult:
    """What came of a job that ran to its end.

    Attributes:
        output: the command's standard output and error.
        files: content of the files left in /out, by path below it.
        dmesg: the kernel's messages.
        seconds: the command's run time in the guest's own clock.
        counters: the virtual GPU's: "jobs", "instructions", "faults", ...
    """

    output: str
    files: dict[str, bytes]
    dmesg: str
    seconds: float
    counters: dict[str, int]


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


def read_console(console: bytes, stderr: str, counters: dict[str, int]) -> GuestResult:
    """Read what the guest sent, and check it.

    Args:
        console: all that it wrote to its console.
        stderr: QEMU's messages, for the error's text.
        counters: the virtual GPU's, passed on.

    Raises:
        RecordError: as `boot`.
    """
    panic = re.search(rb"Kernel panic[^\r\n]*", console)
    if panic:
        raise RecordError(f"the guest's kernel panicked: {panic[0].decode(errors='replace')}")
    frames = parse_frames(console)
    if "received" in frames:
        raise RecordError(
            f"the guest did not get the job's files: {frames['received'].decode(errors='replace').strip()}"
        )
    if "insmod" in frames:
        raise RecordError(
            f"the guest could not load the GPU's driver: {frames['insmod'].decode(errors='replace').strip()}"
        )
    if "status" not in frames:
        raise RecordError(
            f"the guest ended before its job did: {last_lines(console)} {last_lines(stderr.encode())}"
        )
    status = int(frames["status"])
    output = frames["output"].decode(errors="replace")
    dmesg = frames["dmesg"].decode(errors="replace")
    trouble = DRIVER_TROUBLE.search(dmesg)
    if trouble:
        raise RecordError(f"the GPU's driver reported trouble: {trouble[0].strip()}")
    if status:
        raise ProgramError(status, output)
    begin, end = map(float, frames["uptime"].split())
    files = {name.removeprefix("out/"): data for name, data in frames.items() if name.startswith("out/")}
    return GuestResult(output, files, dmesg, end - begin, counters)


def last_lines(text: bytes, count: int = 5) -> str:
    """The last `count` lines of a text that are not blank."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "(nothing)"
