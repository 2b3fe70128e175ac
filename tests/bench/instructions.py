# SPDX-License-Identifier: BSD-2-Clause
"""Instructions of the replayer on the host, counted by callgrind: what it costs to load a trace and to replay it.

Counted are the replayer's own functions with the crypto library in them, and what they spend in the C library's
memcpy and memset. The virtual GPU is not counted: on a device it is hardware.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from host_tools.runners import libraries
from host_tools.runners.needs import secure_bytes
from host_tools.support.cache import cache_dir
from host_tools.vgpu import build as vgpu_build
from signing.delivery import Delivery
from signing.keys import PublicKey
from tee_replayer.generator import hostlib
from tee_replayer.generator.hostlib import HERE
from tee_replayer.generator.status import CORE
from trace_format.emit import GENERATED
from trace_format.errors import GramophoneError
from trace_format.schema import SlotKind
from trace_format.trace import Trace

SOURCE = Path(__file__).with_name("count_replay.c")
PARTS = ("load", "first", "second", "third")
X86 = os.uname().machine == "x86_64"
OPENSSL_HEADER = Path("/usr/include/openssl/ec.h")
CLEARING = "gr_wipe"
COPYING = "gr_copy_slot"
SIGNATURE = "gr_signature_verify"
_NAME = re.compile(r"(c?(?:ob|fn))=\((\d+)\)(?: (.*))?$")


@dataclass(frozen=True)
class Cost:
    """Instructions of one part.

    Attributes:
        work: all but what is named below.
        signature: to check the signature.
        clearing: to overwrite the carve-out with zeros, which depends only on its size.
        copying: to copy the caller's inputs, parameters and outputs.
    """

    work: int
    signature: int
    clearing: int
    copying: int

    @property
    def without_clearing(self) -> int:
        """What is compared with a replayer that clears nothing."""
        return self.work + self.signature


def count(signed: bytes, key: PublicKey, trace: Trace, *, openssl: bool) -> dict[str, Cost]:
    """Cost of loading (`load`), of the first replay with the prologue (`first`), and of each replay after it.

    Args:
        openssl: OpenSSL does the cryptography, as fits a host; else what a device has.

    Raises:
        GramophoneError: valgrind is not installed, or the replay failed.
    """
    if shutil.which("valgrind") is None:
        raise GramophoneError("valgrind is not installed (apt-get install valgrind)")
    if openssl and not OPENSSL_HEADER.exists():
        raise GramophoneError(f"{OPENSSL_HEADER} is missing (apt-get install libssl-dev)")
    profile = trace.profile
    replayer = hostlib.build(profile, None if openssl else libraries.source(), cache_dir("replayer"))
    # Without this machine's vector instructions, which valgrind may not know.
    device = vgpu_build.shared_object("vgpu_plain", vgpu_build.gpu_sources(), ["-march=x86-64"] if X86 else [])
    slots = [
        f"{index}:{slot.dense_bytes}"
        for index, slot in enumerate(trace.slots)
        if slot.kind == SlotKind.OUTPUT or not slot.bound
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "signed").write_bytes(signed)
        (folder / "key").write_bytes(key.raw)
        (folder / "kid").write_bytes(key.kid)
        program = folder / "count_replay"
        include = [f"-I{path}" for path in (CORE, HERE / "host", GENERATED, vgpu_build.HERE)]
        linked = [str(replayer), str(device), f"-Wl,-rpath,{replayer.parent}:{device.parent}"]
        _run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", *include, "-o", str(program), str(SOURCE), *linked])
        files = [str(folder / part) for part in ("signed", "key", "kid")]
        _run(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(program)),
                *(trace.gpu, *files, str(secure_bytes(Delivery(signed))), *slots),
            ]
        )
        found = {}
        for path in sorted(folder.glob("out.*")):
            text = path.read_text()
            part = re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE)
            if part:
                found[part[1]] = _cost(text, replayer.name)
    missing = set(PARTS) - found.keys()
    if missing:
        raise GramophoneError(f"callgrind wrote no counts for {', '.join(sorted(missing))}")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GramophoneError(f"{command[0]} failed: {done.stderr.strip()[-2000:]}")


def _cost(text: str, library: str) -> Cost:
    """Sums of one callgrind file (format: Callgrind Format Specification): costs by function of one object.

    A line `calls=` is followed by the inclusive cost of the calls, which counts where they leave for the C
    library.
    """
    names: dict[tuple[str, str], str] = {}
    current = {"ob": "", "fn": "", "cob": "", "cfn": ""}
    own: dict[str, int] = defaultdict(int)
    inclusive: dict[str, int] = defaultdict(int)
    called = False
    for line in text.splitlines():
        match = _NAME.match(line)
        if match:
            kind, number, name = match.groups()
            table = kind.removeprefix("c")
            if name is not None:
                names[table, number] = name
            current[kind] = names[table, number]
            if kind == "fn":
                current["cob"] = current["ob"]
        elif line.startswith("calls="):
            called = True
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            numbers = line.split()
            amount = int(numbers[1]) if len(numbers) > 1 else 0
            inside = current["ob"].endswith(library)
            if called and inside:
                inclusive[current["cfn"]] += amount
                if re.search(r"/(libc|libcrypto|ld-linux)[.-]", current["cob"]):
                    own[current["fn"]] += amount
            elif inside:
                own[current["fn"]] += amount
            if called:
                called = False
                current["cob"] = current["ob"]
    signature = inclusive[SIGNATURE]
    clearing, copying = own[CLEARING], inclusive[COPYING]
    return Cost(sum(own.values()) - signature - clearing - copying, signature, clearing, copying)
