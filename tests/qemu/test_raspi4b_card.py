# SPDX-License-Identifier: BSD-2-Clause
"""A card of `flash` on QEMU's Raspberry Pi 4: our firmware at EL3, then Debian's Linux, whose driver has the GPU.

With `--exhaustive`: a boot takes more than a minute.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host_tools.flash.pack import Sources, pack
from host_tools.flash.ramdisk import ANSWER
from host_tools.machine.boot import MMAP, GuestJob
from host_tools.machine.root import RecordRoot
from host_tools.runners import firmware, mailbox, vgpu
from host_tools.runners.buffers import bind
from host_tools.runners.needs import secure_bytes
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.qemu.test_raspi4b import lenet
from tests.support import raspi4b as pi
from tests.support.guest_programs import SHADER
from tests.support.signing_samples import ES256

pytestmark = pytest.mark.exhaustive
FILLED, MIB = 0xA5, 1 << 20
# Words of the carve-out that Linux sees, as (first, last, value) for each run; through /dev/mem, as a device's.
LOOK = """
import mmap, os, sys
at, size, name = int(sys.argv[1], 0), int(sys.argv[2], 0), sys.argv[3]
file = os.open("/dev/mem", os.O_RDONLY | os.O_SYNC)
words = memoryview(mmap.mmap(file, size, prot=mmap.PROT_READ, offset=at)).cast("Q")
with open(name, "w") as out:
    start, value = 0, words[0]
    for index in range(1, len(words) + 1):
        now = words[index] if index < len(words) else None
        if now != value:
            print(start * 8, index * 8, f"{value:x}", file=out)
            start, value = index, now
"""
COMMAND = f"""
cp /{ANSWER} /out/answer
python3.13 -S -B /job/look.py {pi.CARVEOUT.base:#x} {MIB:#x} /out/seen || exit
nproc
/job/vadd /job/add.spv 1000 1
ls /sys/bus/platform/drivers/v3d
"""


@pytest.fixture(scope="module")
def machine() -> None:
    pi.qemu_or_skip()


def test_linux_reads_the_answer_and_has_the_gpu(
    machine: None, root: RecordRoot, vadd: Path, tmp_path: Path
) -> None:
    signed = sign_trace(lenet().build(), ES256)
    delivery = Delivery(signed)
    files = {"net.sgtr": signed, "kernel": root.kernel.read_bytes()}
    program = {"job/vadd": vadd.read_bytes(), "job/add.spv": SHADER.read_bytes(), "job/look.py": LOOK.encode()}
    job = GuestJob(COMMAND, {MMAP: (root.tree / MMAP).read_bytes(), **program}, frozenset({"job/vadd"}))
    files["initrd"] = pi.archive(root, job)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    folder = firmware.build(ES256.public, platform="rpi4").folder
    sources = Sources([tmp_path / "net.sgtr"], kernel=tmp_path / "kernel", initrd=tmp_path / "initrd")
    card, _ = pack(folder, sources)

    found, carveout = pi.boot(root, *pi.loaded(card), filled={pi.CARVEOUT.base: bytes([FILLED]) * MIB})

    buffers = bind(delivery.trace, {})
    places = mailbox.layout(signed, buffers)
    report = mailbox.response(memoryview(found.files["answer"]), buffers, places)
    expected = vgpu.replay(vgpu.REQUEST(delivery, ES256.public))
    assert (report.ok, report.jobs) == (True, expected.jobs)
    assert buffers.outputs["prob"].tobytes() == expected.outputs["prob"].tobytes()
    assert "0 of 1000 sums are wrong" in found.output
    assert re.search(r"^4$", found.output, re.MULTILINE), "all four cores are Linux's"
    assert "fec00000.gpu" in found.output
    _check_wiped(found.files["seen"].decode(), carveout, secure_bytes(delivery))


def _check_wiped(seen: str, carveout: bytes, used: int) -> None:
    """What the replay used is zero, and what it did not is as before: that is how Linux sees it, and the host."""
    rows = [line.split() for line in seen.splitlines()]
    first = [int(rows[0][0]), int(rows[0][1]), int(rows[0][2], 16)]
    assert (first[0], first[2]) == (0, 0)
    assert 0 < first[1] <= used
    assert [row[2] for row in rows] == ["0", "a5" * 8]
    assert carveout[: first[1]] == bytes(first[1])
    assert carveout[first[1] : MIB] == bytes([FILLED]) * (MIB - first[1])
    assert carveout[MIB:].count(0) == len(carveout) - MIB, "nor is there anything behind"
