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
from enum import IntEnum
from pathlib import Path

from tests.fuzz.codec_corpus import lz4_inputs, planes_inputs
from tests.fuzz.encryption_corpus import messages
from tests.fuzz.linux_corpus import commands, files
from tests.fuzz.log_corpus import histories
from tests.fuzz.operator_corpus import operator_inputs
from tests.fuzz.optee_corpus import clients, sessions, sharing
from tests.fuzz.targets import CORPUS, GPUS
from tests.fuzz.trust_corpus import envelopes
from tests.support import mali_samples, qpu_asm, replayer_samples
from tests.support.bifrost_board import invocation
from trace_format import profile
from trace_format.actions import Op
from trace_format.schema.mailbox import MAILBOX_ATTESTATION, MAILBOX_LOG, MAILBOX_NONCE, REQUEST_MAGIC

Inputs = dict[str, bytes]


class Kind(IntEnum):
    """Kinds of records of c/core.h."""

    NUMBER, SLOT, ACTION, EDIT, REGISTER, STEP = range(6)


class Number(IntEnum):
    """Numbers of c/core.h."""

    (
        CARVEOUT_PAGES,
        VA_PAGES,
        IMAGE_BYTES,
        TIME_BUDGET,
        RETRIES,
        CHUNK_BITS,
        CODECS,
        IMAGE_PARTS,
        OPTIONAL_PARTS,
        SECURITY_VERSION,
        MIN_SECURITY_VERSION,
        CORE_MASK,
        DEVICE_PAGES,
        CLOCK_START,
        CLOCK_STEP,
        READ_FAILS_AT,
        HASH_FAILS_AT,
        VERDICT_BAD_AT,
        IRQ_PATTERN,
        EXTRA_BYTES,
    ) = range(20)


def record(kind: Kind, what: int, data: bytes, how: int = 0, more: int = 0) -> bytes:
    """A record of c/core.h."""
    return struct.pack("<4B16s", kind, how, what, more, data)


def number(which: Number, value: int) -> bytes:
    """Set a number."""
    return record(Kind.NUMBER, which, struct.pack("<Q", value))


def slot(kind: int, address: int, flags: int = 0) -> bytes:
    """A slot of 3 x 5 floats."""
    return record(Kind.SLOT, kind - 1, struct.pack("<BBI6B", 1, 0, address, 3, 5, 0, 0, 0, 0), flags)


def raw(op: Op, flags: int = 0, arg: int = 0, value: int = 0, a: int = 0, b: int = 0) -> bytes:
    """An action as it is."""
    return record(Kind.ACTION, 0, struct.pack("<BBHIII", op, flags, arg, value, a, b), how=1)


JOB = record(Kind.ACTION, 0xF0, b"")
START = raw(Op.REPLAY_START)


def step(what: int, which: int = 0xFFFF, claimed: int = 0, how: int = 0) -> bytes:
    """The caller: 0 binds all, 1 some, 2 runs."""
    return record(Kind.STEP, what, struct.pack("<Q", which) + struct.pack("<Q", claimed), how)


def reads_as(offset: int, value: int, mode: int = 0) -> bytes:
    """A register reads as a value (0), with bits flipped (1), so now and then (2), or later (3)."""
    return record(Kind.REGISTER, mode, struct.pack("<IIH", offset, value, 40), how=1)


def edit(place: int, at: int, value: int, width: int = 2, how: int = 0, more: int = 0) -> bytes:
    """Overwrite a number of 1 << width bytes: of the header (0), table (1), envelope (2), section n (3 + n)."""
    return record(Kind.EDIT, place, struct.pack("<QQ", at, value), how, more | width)


def scenes(gpu: str) -> Iterator[tuple[str, bytes]]:
    """For the core with a nano driver. The image has two pages; after it, to page 7, is working memory."""
    found = profile.load(gpu)

    def index(name: str) -> int:
        return found.register(name).index

    mali = gpu.startswith("mali")
    first, start, status = (
        ("gpu.IRQ_MASK", "js0.COMMAND_NEXT", "mmu.IRQ_RAWSTAT")
        if mali
        else ("core0.INT_CLR", "core0.CSD_QUEUED_CFG0", "hub.MMU_CTL")
    )
    code = raw(Op.MAP_GPU_MEM, 5 if mali else 1, 0, 2, 0, 0)
    data = raw(Op.MAP_GPU_MEM, 3, 0, 4, 8, 2)
    harmless = raw(Op.REG_WRITE, 0, index(first), 1, 0xFFFFFFFF)
    go = raw(Op.REG_WRITE, 0, index(start), 1, 0xFFFFFFFF)
    wait = raw(Op.WAIT_IRQ, 0, 0, 1000)
    slots = slot(1, 8 * 4096) + slot(2, 8 * 4096 + 256) + slot(3, 9 * 4096)
    valid = slots + code + data + raw(Op.SET_GPU_PGTABLE) + raw(Op.UPLOAD, 0, 0, 64, 4 * 4096, 8)
    valid += raw(Op.COPY_TO_GPU, 0, 2) + START + raw(Op.COPY_TO_GPU) + JOB + harmless + go + wait
    valid += raw(Op.REG_READ_KEEP, 0, found.identity.index, 0, 0, 3) + raw(Op.INTERVAL, 0, 0, 9)
    valid += raw(Op.COPY_FROM_GPU, 0, 1)
    yield "valid", valid
    yield "packed", valid + number(Number.CODECS, 0xFF) + number(Number.IMAGE_PARTS, 2)
    yield "notes", valid + number(Number.OPTIONAL_PARTS, 1) + number(Number.IMAGE_BYTES, 19999)
    yield "retries", valid + number(Number.RETRIES, 3) + number(Number.IRQ_PATTERN, 0x10)
    yield "no-retries", valid + number(Number.IRQ_PATTERN, 0)
    yield "steps", valid + step(2) + step(1, 1, 60, 2) + step(0) + step(2) + step(1) + step(2)
    yield "fault", valid + number(Number.RETRIES, 2) + reads_as(found.register(status).offset, 0x08101000, 3)
    yield "kept", data + raw(Op.REG_WRITE_KEPT, 0, index(first), 0, 0, 3)
    yield "partial", data + raw(Op.REG_WRITE, 0, index(first), 1, 0xFF)
    yield "unmap", data + raw(Op.UNMAP_GPU_MEM, 0, 0, 2, 9) + raw(Op.CLEAR, 0, 0, 400, 3 * 4096)
    # hostile, and signed
    yield "image-writable", raw(Op.MAP_GPU_MEM, 3, 0, 1, 0, 1)
    yield "image-end-writable", raw(Op.MAP_GPU_MEM, 3, 0, 3, 0, 1)
    yield "outside", raw(Op.MAP_GPU_MEM, 1, 0, 4, 0, 7)
    yield "just-outside", raw(Op.MAP_GPU_MEM, 1, 0, 1, 0, 8)
    yield "far-outside", raw(Op.MAP_GPU_MEM, 1, 0, 0xFFFFFFFF, 0, 0xFFFFFFFF)
    yield "execute-data", raw(Op.MAP_GPU_MEM, 5, 0, 3, 0, 1)
    yield "above", raw(Op.MAP_GPU_MEM, 1, 0, 8, 60 if not mali else 0xFFFFC, 2)
    yield "upload-image", raw(Op.UPLOAD, 0, 0, 64, 5000, 8)
    yield "upload-beyond", raw(Op.UPLOAD, 0, 0, 64, 4 * 4096, 4980)
    yield "clear-tables", raw(Op.CLEAR, 0, 0, 4096, 8 * 4096 - 8)
    yield "slot-in-image", slot(1, 0) + slot(2, 0) + code + raw(Op.COPY_TO_GPU) + raw(Op.COPY_FROM_GPU, 0, 1)
    yield (
        "kept-bits",
        data
        + reads_as(found.identity.offset, found.identity_value)
        + raw(Op.REG_READ_KEEP, 0, index(status), 0, 0, 1)
        + reads_as(found.register(status).offset, 0xFFFFFFFF)
        + raw(Op.REG_WRITE_KEPT, 0, index(first), 0, 0, 1),
    )
    yield "line", raw(Op.WAIT_IRQ, 0, len(found.interrupts), 1)
    yield "keep", raw(Op.REG_READ_KEEP, 0, found.identity.index, 0, 0, 8)
    driven = sorted(r.index for r in found.registers.values() if r.driver)
    yield "driver-register", raw(Op.REG_WRITE, 0, driven[0], 0x123, 0xFFFFFFFF)
    yield "no-register", raw(Op.REG_WRITE, 0, 0xFFFF, 0x123, 0xFFFFFFFF)
    if mali:
        yield (
            "block",
            number(Number.CARVEOUT_PAGES, 1030)
            + number(Number.DEVICE_PAGES, 1150)
            + raw(Op.MAP_GPU_MEM, 3, 1, 512, 512, 512)
            + raw(Op.UNMAP_GPU_MEM, 0, 1, 3, 700)
            + raw(Op.MAP_GPU_MEM, 3, 15, 1, 0, 2),
        )
        idle = raw(Op.REG_WRITE, 0, index("as0.COMMAND"), 1, 0xFFFFFFFF)
        yield "idle", data + idle
        yield "busy", data + reads_as(found.register("js0.STATUS").offset, 8, 3) + idle
    else:
        ctl = index("hub.MMU_CTL")
        yield "mmu-off", data + raw(Op.REG_WRITE, 0, ctl, 0, 0xFFFFFFFF)
        yield "mmu-off-partly", data + raw(Op.REG_WRITE, 0, ctl, 0, 1)
        cfg5 = index("core0.CSD_QUEUED_CFG5")
        yield "code-in-data", data + raw(Op.REG_WRITE, 0, cfg5, 8 * 4096, 0xFFFFFFFF) + go
        yield "code-in-image", code + raw(Op.REG_WRITE, 0, cfg5, 0, 0xFFFFFFFF) + go
    for name, which, value in (
        ("old", Number.MIN_SECURITY_VERSION, 1),
        ("stranger", Number.VERDICT_BAD_AT, 2),
        ("no-hash", Number.HASH_FAILS_AT, 3),
        ("no-read", Number.READ_FAILS_AT, 3),
        ("little-memory", Number.DEVICE_PAGES, 9),
        ("cores", Number.CORE_MASK, 1 << 40),
        ("longer", Number.EXTRA_BYTES, 8),
        ("late", Number.TIME_BUDGET, 5),
    ):
        yield name, valid + number(which, value)
    yield "chunk", valid + edit(7, 4, 0x55, 0, how=2)
    yield "section-size", valid + edit(1, 3 * 32 + 24, 16, 3, more=4)
    yield "manifest", valid + edit(3, 152, 0xFFFFFFFFFFFFF000, 3)
    yield "slot-reserved", valid + edit(4, 100, 1, 0)


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
    found |= {f"vgpu-{gpu}": dict(machines(gpu)) for gpu in GPUS}
    return {
        **found,
        "lz4": dict(lz4_inputs()),
        "planes": dict(planes_inputs()),
        "log": dict(histories()),
        "mailbox": dict(requests()),
        "mailbox-log": dict(logged()),
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
