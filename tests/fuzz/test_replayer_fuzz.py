# SPDX-License-Identifier: BSD-2-Clause
"""Hostile traces and LZ4 data through the core, compiled with sanitizers: no access outside its memory."""

from __future__ import annotations

import dataclasses
import random
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import lz4.block
import numpy as np
import pytest

from host_tools.runners import bearssl
from tee_replayer import crypto, hostlib, target
from tee_replayer.status import CORE
from tee_replayer.target import drivers
from tests.support import replayer_samples as s
from trace_format import profile
from trace_format.actions import MAP_READ, MAP_WRITE, Op, action
from trace_format.emit import GENERATED
from trace_format.profile import Profile
from trace_format.schema import SectionType
from trace_format.trace import Trace

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
TRACES, STREAMS = 1500, 3000


@pytest.fixture(scope="module", params=drivers())
def gpu(request: pytest.FixtureRequest) -> Profile:
    return profile.load(request.param)


@pytest.fixture(scope="module")
def fuzzer(gpu: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install gcc")
    folder = tmp_path_factory.mktemp("fuzzer")
    (folder / "gr_target.h").write_text(target.header(gpu))
    source = bearssl.source()
    include = [folder, CORE, hostlib.HERE / "host", GENERATED, source / "inc", source / "src"]
    files = [*hostlib.own_sources(gpu), *(source / name for name in crypto.SOURCES)]
    program = folder / "replayer_fuzz"
    flags = ["-std=c11", "-w", *SANITIZERS, *(f"-I{path}" for path in include)]
    here = Path(__file__).with_name("replayer_fuzz.c")
    subprocess.run([compiler, *flags, "-o", str(program), str(here), *map(str, files)], check=True)
    return program


def run(program: Path, folder: Path, records: Iterable[bytes], *arguments: str) -> tuple[int, int]:
    """How many records there were, and how many were accepted; fails on any sanitizer's report."""
    file = folder / "records"
    file.write_bytes(b"".join(struct.pack("<I", len(record)) + record for record in records))
    done = subprocess.run([str(program), *arguments, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    count, accepted = map(int, done.stdout.split())
    return count, accepted


def sample(gpu: Profile) -> Trace:
    """Maps and unmaps memory, on both sides of a 2 MiB border, and copies a slot."""
    if gpu.name == s.GPU.name:
        return s.trace()
    rows = [
        action(
            Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=6, frame=s.MEMORY_PAGE, address_space=0, va_page=510
        ),
        action(Op.UNMAP_GPU_MEM, pages=1, address_space=0, va_page=515),
        action(Op.SET_GPU_PGTABLE),
        *s.PROLOGUE[3:],
        action(Op.COPY_TO_GPU),
        action(Op.COPY_FROM_GPU, slot=1),
    ]
    slots = [dataclasses.replace(slot, address=511 * s.PAGE) for slot in s.slots()]
    return s.trace(*rows, gpu=gpu.name, va_bytes=1 << 48, slots=slots)


def mutations(rng: random.Random, trace: Trace) -> Iterable[bytes]:
    """Signed traces with some bytes overwritten, most of them in the places that are interpreted."""
    extremes = (0, 1, 2, 7, 0x7F, 0x80, 0xFF)
    for compress in (False, True):
        good = trace.build(compress=compress, chunk_bytes=4096)
        for _ in range(TRACES // 2):
            parts = s.Parts(bytearray(good))
            places = [
                (0, 64 + 6 * 32),
                (parts.section(SectionType.MANIFEST)[1] + 112, 88),
                (parts.section(SectionType.SLOTS)[1] + 32, 72),
                (parts.section(SectionType.ACTIONS)[1], 9 * 16),
                (parts.section(SectionType.IMAGE)[1], 64),
            ]
            for _ in range(rng.choice((1, 1, 2, 5))):
                start, size = rng.choice(places)
                at = min(start + rng.randrange(size), len(parts.data) - 1)
                parts.data[at] = rng.choice((*extremes, rng.randrange(256)))
            try:
                yield parts.signed()
            except (ValueError, OverflowError):  # so damaged that it cannot even be hashed
                yield s.signed(bytes(parts.data))


def test_hostile_signed_traces(fuzzer: Path, gpu: Profile, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(s.KEY.raw)
    (tmp_path / "kid").write_bytes(s.KEY.kid)
    records = [s.signed(sample(gpu)), *mutations(random.Random(1), sample(gpu))]
    arguments = ("traces", str(tmp_path / "key"), str(tmp_path / "kid"))
    count, accepted = run(fuzzer, tmp_path, records, *arguments)
    assert count == len(records)
    assert 100 < accepted < count - 100, "some must get far, some must not"


def stream(raw: bytes, level: int) -> bytes:
    """A record of the fuzzer: `raw` as an LZ4 block."""
    packed: bytes = lz4.block.compress(raw, mode="high_compression", compression=level, store_size=False)
    return struct.pack("<I", len(raw)) + packed


def test_damaged_lz4(fuzzer: Path, tmp_path: Path) -> None:
    rng = random.Random(2)
    noise = np.random.default_rng(2)
    records = []
    for _ in range(STREAMS):
        raw = noise.integers(0, rng.choice((2, 5, 256)), rng.randrange(1, 3000), np.uint8).tobytes()
        record = bytearray(stream(raw + raw[: rng.randrange(300)], rng.randrange(13)))
        for _ in range(rng.randrange(4)):
            record[rng.choice((0, 1, *range(4, len(record))))] = rng.randrange(256)
        records.append(bytes(record[: rng.choice((len(record), rng.randrange(4, len(record) + 1)))]))
    count, accepted = run(fuzzer, tmp_path, records, "lz4")
    assert count == STREAMS
    assert 100 < accepted < STREAMS - 100
