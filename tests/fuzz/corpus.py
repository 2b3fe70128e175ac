# SPDX-License-Identifier: BSD-2-Clause
"""Makes the committed corpora: a few inputs for each target, valid ones and hostile ones.

python -m tests.fuzz.corpus            # writes tests/fuzz/corpus
python -m tests.fuzz.corpus --check    # exit status 1 if that would change anything
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.codec_corpus import lz4_inputs
from tests.fuzz.core_corpus import computing_scenes, encrypted_scenes, scenes, streamed_scenes
from tests.fuzz.encryption_corpus import messages
from tests.fuzz.joint_corpus import joint_scenes
from tests.fuzz.linux_corpus import commands, files
from tests.fuzz.log_corpus import histories
from tests.fuzz.operator_corpus import operator_inputs
from tests.fuzz.optee_corpus import clients, sessions, sharing
from tests.fuzz.targets import CORPUS, GPUS
from tests.fuzz.trust_corpus import envelopes
from tests.support import mali_samples, qpu_asm, replayer_samples
from tests.support.bifrost_board import invocation
from trace_format import profile
from trace_format.schema.mailbox import (
    MAILBOX_ATTESTATION,
    MAILBOX_LOG,
    MAILBOX_NONCE,
    MAILBOX_REQUEST,
    REQUEST_MAGIC,
)

Inputs = dict[str, bytes]


BufferRow = tuple[int, int, int]  # slot, offset, bytes


def mailbox_request(at: int, size: int, repeat: int, *buffers: BufferRow) -> bytes:
    """A request in the mailbox for a trace of `size` bytes at an offset, whatever it asks for."""
    rows = b"".join(struct.pack("<IIQQ", slot, 0, offset, data) for slot, offset, data in buffers)
    return struct.pack("<8sQQII", REQUEST_MAGIC, at, size, repeat, len(buffers)) + rows


def logged() -> Iterator[tuple[str, bytes]]:
    """For the mailbox of firmware with a log: a log, a nonce and an attestation, and what may fail."""
    trace_bytes = len(replayer_samples.signed(replayer_samples.trace()))
    log, nonce, answer = MAILBOX_LOG, MAILBOX_NONCE, MAILBOX_ATTESTATION
    slots = ((0, 0xC000, 24), (1, 0xC100, 24))
    both = (*slots, (log, 0xD000, 0x1000))
    asked = (*both, (nonce, 0xC200, 16), (answer, 0xE000, 1032))

    def made(buffers: tuple[BufferRow, ...], fails_at: int = 0) -> bytes:
        return mailbox_request(0x4000, trace_bytes, 2 | fails_at << 2, *buffers)

    yield "log", made(both)
    yield "attested", made(asked)
    yield "no-log", made(slots)
    yield "log-too-small", made((*slots, (log, 0xD000, 300)))
    yield "log-outside", made((*slots, (log, 0xFF00, 0x1000)))
    yield "short-nonce", made((*both, (nonce, 0xC200, 7), (answer, 0xE000, 1032)))
    yield "long-nonce", made((*both, (nonce, 0xC200, 65), (answer, 0xE000, 1032)))
    yield "no-answer", made((*both, (nonce, 0xC200, 16)))
    yield "answer-over-log", made((*both, (nonce, 0xC200, 16), (answer, 0xD000, 1032)))
    yield "odd-places", made((*slots, (log, 0xD001, 0x1000)))
    for call in range(1, 60, 6):
        yield f"fails-{call}", made(asked, fails_at=call)


def dated() -> Iterator[tuple[str, bytes]]:
    """For the mailbox of firmware with a queue: requests with deadlines for a joint trace of two networks."""
    trace_bytes = len(replayer_samples.signed(replayer_samples.joint(2)))
    never = (1 << 64) - 1
    slots = [((2 * network, 0, 0xC000, 24), (2 * network + 1, 0, 0xC100, 24)) for network in range(2)]

    def made(*rows: tuple[int, int, int, int], repeat: int = 1) -> bytes:
        """Rows: slot, step, offset, bytes; a request's slot says which network, and its bytes when it is due."""
        data = b"".join(struct.pack("<IIQQ", *row) for row in rows)
        return struct.pack("<8sQQII", REQUEST_MAGIC, 0x4000, trace_bytes, repeat, len(rows)) + data

    def asked(network: int, due: int = never, at: int = 0xD000) -> tuple[int, int, int, int]:
        return MAILBOX_REQUEST + network, 0, at, due

    one, two = (asked(0), *slots[0]), (asked(1, at=0xD100), *slots[1])
    yield "one", made(*one)
    yield "both", made(*one, *two)
    yield "again", made(*one, *two, repeat=3)
    yield "many", made(*(one + two) * 5)
    yield "due", made(asked(0, 9_000_000), *slots[0], asked(1, 100_000), *slots[1])
    yield "late", made(asked(0, 0), *slots[0], asked(1, 1), *slots[1])
    yield "no-such-network", made(asked(2), *slots[0])
    yield "others-slots", made(asked(0), *slots[1])
    yield "no-slots", made(asked(0))
    yield "answer-outside", made(asked(0, at=0xFFFF), *slots[0])
    yield "answer-in-the-request", made(asked(0, at=0), *slots[0])
    yield "answer-over-data", made(asked(0, at=0xC000), *slots[0])
    yield "answer-wraps", made(asked(0, at=never), *slots[0])
    yield "steps", made(asked(0), (0, 64, 0xC000, 24), slots[0][1])
    yield "buffer-outside-of-a-request", made(asked(0), (0, 0, 0xFFF0, 24), slots[0][1])
    yield "other-bytes", made(asked(0), (0, 0, 0xC000, 25), slots[0][1])
    yield "steps-of-a-request", made((MAILBOX_REQUEST, 1, 0xD000, never), *slots[0])
    yield "many-slots", made(asked(0), *[slots[0][0]] * 40)
    yield "no-beginning", made(*slots[0], repeat=2)
    yield "mixed", made(*one, *slots[1])
    yield "buffers-first", made(*slots[0], *one)


def requests() -> Iterator[tuple[str, bytes]]:
    """For the mailbox: requests as host_tools writes them, and others."""
    trace_bytes = len(replayer_samples.signed(replayer_samples.trace()))

    def made(at: int = 0x4000, size: int = trace_bytes, repeat: int = 1, *buffers: BufferRow) -> bytes:
        return mailbox_request(at, size, repeat, *buffers)

    both = ((0, 0xC000, 24), (1, 0xC100, 24))
    yield "bound", made(0x4000, trace_bytes, 2, *both)
    yield "no-data", made()
    yield "outside", made(0xFFF0)
    yield "wraps", made(0xFFFFFFFFFFFFFFF0, 0x5000)
    yield "in-the-request", made(0, trace_bytes)
    yield "short", made(0x4000, 100)
    yield "buffer-outside", made(0x4000, trace_bytes, 1, (0, 0xFFF0, 24), both[1])
    yield "buffer-in-the-request", made(0x4000, trace_bytes, 1, (0, 0, 24), both[1])
    yield "buffer-wraps", made(0x4000, trace_bytes, 1, (0, 0xFFFFFFFFFFFFFFF8, 24), both[1])
    yield "other-size", made(0x4000, trace_bytes, 1, (0, 0xC000, 25), both[1])
    yield "no-slot", made(0x4000, trace_bytes, 1, (9, 0xC000, 24), both[1])
    yield "no-request", bytes(64)
    yield "many-buffers", made(0x4000, trace_bytes, 1)[:28] + struct.pack("<I", 257)


# Of tests/support/qpu_asm.py: a thread does no more than these before it ends.
SHADERS: dict[str, list[str]] = {
    "nothing": [],
    "load": [
        "nop; nop; ldunifrf.rf9",
        "nop; mov tmua, rf9; thrsw",
        "nop; nop",
        "nop; nop",
        "nop; nop; ldtmu.r1",
        "nop; mov tmud, r1",
        "nop; mov tmua, rf9",
    ],
    "arithmetic": [
        "eidx r0; nop; ldunif",
        "add rf1, r0, 3; fmul r1, rf2, r5",
        "fadd r2, r0, r1; nop",
        "itof rf4, rf1; nop",
    ],
    "branch": ["b 0", "nop; nop", "nop; nop", "nop; nop"],
}


def machines(gpu: str) -> Iterator[tuple[str, bytes]]:
    """For a virtual GPU: jobs that do a little, and one of zeros."""
    first = 0x4000 if gpu.startswith("mali") else 0x1000

    def made(writes: list[tuple[str, int]], memory: bytes) -> bytes:
        rows = (
            struct.pack("<HHI", profile.load(gpu).register(name).index, 8 | 2, value) for name, value in writes
        )
        return bytes([len(writes)]) + b"".join(rows) + memory

    if gpu.startswith("mali"):
        start = [("gpu.SHADER_PWRON_LO", 0xFF), ("js1.HEAD_NEXT_LO", first), ("js1.HEAD_NEXT_HI", 0)]
        start += [("js1.AFFINITY_NEXT_LO", 0xFF), ("js1.CONFIG_NEXT", 0), ("js1.COMMAND_NEXT", 1)]
        null = functools.partial(mali_samples.job_header, kind=1)
        chain = null(next_va=first + 64) + null(index=2)
        yield "chain", made(start, chain)
        state, program_at = first + 256, first + 320
        shader_job = mali_samples.job_header().ljust(120, b"\0") + struct.pack("<Q", state)
        program = struct.pack("<Q", program_at).ljust(64, b"\0") + mali_samples.END_THREAD
        yield "shader", made(start, shader_job.ljust(256, b"\0") + program)
        many = shader_job[:32] + invocation((64, 1, 1), (1 << 13, 1 << 13, 1)) + shader_job[40:]
        yield "many-batches", made(start, many.ljust(256, b"\0") + program)
        yield "no-chain", made(start, bytes(64))
    else:
        start = [("core0.CSD_QUEUED_CFG1", 1 << 16), ("core0.CSD_QUEUED_CFG2", 1 << 16)]
        start += [
            ("core0.CSD_QUEUED_CFG3", 0x110),
            ("core0.CSD_QUEUED_CFG4", 0),
            ("core0.CSD_QUEUED_CFG5", first | 4),
        ]
        start += [("core0.CSD_QUEUED_CFG6", first + 0x400), ("core0.CSD_QUEUED_CFG0", 1 << 16)]
        finish = ["nop; nop; thrsw", "nop; nop", "nop; nop"]
        for name, lines in SHADERS.items():
            code = qpu_asm.assemble([*lines, *finish])
            yield (
                name,
                made(start, code.ljust(0x400, b"\0") + struct.pack("<8I", *range(first, first + 8 * 256, 256))),
            )
        yield "zeros", made(start, bytes(256))


def corpora() -> dict[str, Inputs]:
    """All, by folder and file name."""
    found = {f"core-{gpu}": dict(scenes(gpu)) for gpu in GPUS}
    found |= {f"joint-{gpu}": dict(joint_scenes(gpu)) for gpu in GPUS}
    found |= {"encrypted-v3d42": dict(encrypted_scenes("v3d42"))}
    found |= {"computing-v3d42": dict(computing_scenes("v3d42"))}
    found |= {"streamed-v3d42": dict(streamed_scenes("v3d42"))}
    found |= {f"vgpu-{gpu}": dict(machines(gpu)) for gpu in GPUS}
    return {
        **found,
        "lz4": dict(lz4_inputs()),
        "log": dict(histories()),
        "mailbox": dict(requests()),
        "mailbox-log": dict(logged()),
        "mailbox-requests": {**dict(requests()), **dict(dated())},
        "linux": dict(commands()),
        "linux-npy": dict(files()),
        "operators": dict(operator_inputs()),
        "pta": dict(sessions()),
        "pta-sharing": dict(sharing()),
        "ta": dict(clients()),
        "trust": dict(envelopes()),
        "encryption": dict(messages()),
    }


def main(arguments: list[str]) -> int:
    stale = []
    for name, inputs in corpora().items():
        folder = CORPUS / name
        known = {path.name: path.read_bytes() for path in folder.glob("*")}
        if known == inputs:
            continue
        stale.append(name)
        if "--check" in arguments:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*"):
            path.unlink()
        for file, data in inputs.items():
            (folder / file).write_bytes(data)
    print("\n".join(f"{Path('tests/fuzz/corpus') / name}: written" for name in stale))
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
