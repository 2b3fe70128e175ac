# SPDX-License-Identifier: BSD-2-Clause
"""What the campaign attacks: traces that a device refuses, each with the one that it accepts.

A case is a row of CASES. Its trace maps memory and writes a register that no nano driver writes, so that it is
seen when it gets through; the control is the same without what is wrong with it, and must get through.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec

from signing import envelope
from signing.keys import SIGNATURE_BYTES
from signing.sign import FileSigner
from tests.support import replayer_samples as s
from tests.support.replayer_samples import Parts, signed
from trace_format import layout, profile
from trace_format.actions import ALL_BITS, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.schema import SectionType
from trace_format.trace import Trace

MIN_SECURITY_VERSION = 2
STRANGER = FileSigner(ec.derive_private_key(0x737472616E676572, ec.SECP256R1()))  # no secret
# What a nano driver writes.
DRIVER = {
    "v3d42": {
        "bridge.SW_INIT_1",
        *(f"hub.{name}" for name in ("MMU_PT_PA_BASE", "MMU_ADDR_CAP", "MMU_ILLEGAL_ADDR", "MMU_CTL")),
    },
    "mali_g71": {
        "gpu.COMMAND",
        *(f"{block}.IRQ_{name}" for block in ("gpu", "job", "mmu") for name in ("MASK", "CLEAR")),
        *(f"as{i}.{name}" for i in range(8) for name in ("TRANSCFG_LO", "COMMAND")),
        *(f"as0.{name}_{half}" for name in ("TRANSCFG", "TRANSTAB", "MEMATTR") for half in ("LO", "HI")),
    },
}
# A register that no driver writes, and what the traces of the campaign write to it.
MARK = {"v3d42": "core0.INT_CLR", "mali_g71": "js0.HEAD_NEXT_LO"}
MARK_VALUE = 0x80
# What a register always reads: identities, and the end of a Mali's reset.
READS = {"v3d42": s.IDENT["v3d42"], "mali_g71": {**s.IDENT["mali_g71"], "gpu.IRQ_RAWSTAT": 0x100}}


@dataclass(frozen=True)
class Turns:
    """Networks of a joint trace that take turns.

    Attributes:
        order: who asks for a replay; (): the trace has one network, and is replayed as others are.
        within: in how many microseconds, of each network.
        whose: the register whose value tells whose a job is.
        start: the register that starts a job.
        table: the register with the page tables' place.
        roots: of each network, the value of its jobs, and where its tables lie, in pages of the carve-out.
    """

    order: tuple[int, ...]
    within: tuple[int, ...]
    whose: str
    start: str
    table: str
    roots: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Attempt:
    """A signed trace and the GPU that it meets.

    Attributes:
        signed: the file.
        reads: what registers read, besides READS.
        writes: (register, value) that only this trace writes, though the driver writes the register too. Where
            there are any, only they count, and the mark does not: all else is its signer's to do.
        trace: the trace, where it is a good one and its outputs are wanted; the mark does not count then.
        turns: who is asked for, where it is a joint one; only a job counts then that starts
            with another network's tables.
    """

    signed: bytes
    reads: dict[str, int] = field(default_factory=dict)
    writes: tuple[tuple[str, int], ...] = ()
    trace: Trace | None = None
    turns: Turns | None = None


@dataclass(frozen=True)
class Case:
    """A refusal.

    Attributes:
        name: for the command line and tables.
        title: what is wrong with the trace.
        status: name of the status with which it is refused.
        refused: the trace of a GPU, and its circumstances.
        control: the same with nothing wrong.
        gpus: GPUs that have the case.
        promised: nothing may get through; else it is only counted what becomes of a good trace.
    """

    name: str
    title: str
    status: str
    refused: Callable[[str], Attempt]
    control: Callable[[str], Attempt]
    gpus: tuple[str, ...] = tuple(DRIVER)
    promised: bool = True


# Without repetitions: in one that had some, a fault in a pointer copied the untampered bytes of another place.
IMAGE = random.Random(1).randbytes(len(s.IMAGE))


def sample(gpu: str, *more: Action, version: int = MIN_SECURITY_VERSION) -> Trace:
    """Maps memory, does `more`, writes the mark."""
    register = profile.load(gpu).register(MARK[gpu])
    mark = action(Op.REG_WRITE, register=register.index, value=MARK_VALUE, mask=ALL_BITS)
    meta = {"name": "small", "security_version": version}
    return s.trace(*s.PROLOGUE[:2], *more, mark, gpu=gpu, image=IMAGE, slots=[], meta=meta)


def good(gpu: str) -> Attempt:
    return Attempt(signed(sample(gpu)))


def by_a_stranger(gpu: str) -> Attempt:
    """The key's id is the device's, the signature another key's."""
    data = sample(gpu).build(compress=False)
    head = data[: int.from_bytes(data[24:28], "little")]
    theirs = STRANGER.sign(envelope.to_be_signed(s.ES256.alg, s.ES256.kid, head))
    return Attempt(envelope.join(envelope.Envelope(s.ES256.alg, s.ES256.kid, theirs), data))


def owners(gpu: str) -> Attempt:
    """The good trace, whose mark is no finding."""
    trace = sample(gpu)
    return Attempt(signed(trace), trace=trace)


def unsigned(gpu: str) -> Attempt:
    """Zeros where the signature is."""
    data = sample(gpu).build(compress=False)
    return Attempt(envelope.join(envelope.Envelope(s.ES256.alg, s.ES256.kid, bytes(SIGNATURE_BYTES)), data))


def changed_head(gpu: str) -> Attempt:
    """Another name, after signing."""
    data = bytearray(signed(sample(gpu)))
    start = envelope.split(bytes(data)).offset
    at = start + layout.disassemble(bytes(data[start:]))[1].one(SectionType.MANIFEST).offset
    data[at : at + len(OTHER)] = OTHER
    return Attempt(bytes(data))


def old(gpu: str) -> Attempt:
    return Attempt(signed(sample(gpu, version=MIN_SECURITY_VERSION - 1)))


def wrong_profile(gpu: str) -> Attempt:
    trace = sample(gpu)
    return Attempt(Parts.of(trace).manifest("profile_id", trace.profile.profile_id ^ 1 << 40).signed())


def tampered_chunk(gpu: str) -> Attempt:
    """A bit in each of the image's last three words, after signing: one fault could take one bit back."""
    data = bytearray(signed(sample(gpu)))
    for at in (-1, -9, -17):
        data[at] ^= 0x10
    return Attempt(bytes(data))


def wrong_gpu(gpu: str) -> Attempt:
    """The next architecture."""
    register, value = next(iter(s.IDENT[gpu].items()))
    return Attempt(signed(sample(gpu)), reads={register: value ^ (0x10 if gpu == "v3d42" else 0x10000000)})


def hostile(action: Action, writes: tuple[tuple[str, int], ...] = ()) -> Callable[[str], Attempt]:
    """A correctly signed trace that does more, several times: the copy of one action could be lost to a fault, and
    a trace without it be good."""
    return lambda gpu: Attempt(signed(sample(gpu, *[action] * TIMES)), writes=writes)


def image_writable(gpu: str) -> Attempt:
    """Maps the image's page; the flag is set after the host's checks, which would refuse it too."""
    parts = Parts.of(sample(gpu, *[IMAGE_READABLE] * TIMES))
    for index in range(2, 2 + TIMES):
        parts = parts.action(index, flags=MAP_READ | MAP_WRITE)
    return Attempt(parts.signed())


def write(name: str, value: int) -> Action:
    """A write of a V3D's register."""
    return action(Op.REG_WRITE, register=s.register(name), value=value, mask=ALL_BITS)


def mali_write(name: str, value: int) -> Action:
    register = profile.load("mali_g71").register(name)
    return action(Op.REG_WRITE, register=register.index, value=value, mask=ALL_BITS)


MMU_CTL = s.GPU.register("hub.MMU_CTL")
MMU_ON = MMU_CTL.may_set  # every bit that a trace may set
MMU_OFF = MMU_ON & ~1  # without ENABLE
TIMES = 3
TABLE_BASE = 0x00ABCDE0
OTHER = b"other"  # as long as the sample's name
IMAGE_READABLE = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, a=0x18, frame=0)
V3D, MALI = ("v3d42",), ("mali_g71",)

CASES = (
    Case("stranger", "a stranger's signature", "SIGNATURE", by_a_stranger, good),
    Case("unsigned", "zeros for a signature", "SIGNATURE", unsigned, good),
    Case("changed-head", "a head that was changed", "SIGNATURE", changed_head, good),
    Case("old", "an old security version", "ROLLBACK", old, good),
    Case("profile", "another profile's id", "PROFILE", wrong_profile, good),
    Case("chunk", "a tampered chunk", "CHUNK", tampered_chunk, good),
    Case("gpu", "another GPU's identity", "IDENTITY", wrong_gpu, good),
    Case(
        "mmu-off",
        "signed: MMU_CTL without ENABLE",
        "REGISTER",
        hostile(write("hub.MMU_CTL", MMU_OFF), writes=(("hub.MMU_CTL", MMU_OFF),)),
        hostile(write("hub.MMU_CTL", MMU_ON), writes=(("hub.MMU_CTL", MMU_ON),)),
        V3D,
    ),
    Case(
        "table",
        "signed: page table's base",
        "REGISTER",
        hostile(write("hub.MMU_PT_PA_BASE", TABLE_BASE), writes=(("hub.MMU_PT_PA_BASE", TABLE_BASE),)),
        good,
        V3D,
    ),
    Case(
        "table",
        "signed: page table's base",
        "REGISTER",
        hostile(mali_write("as0.TRANSTAB_LO", TABLE_BASE << 4), writes=(("as0.TRANSTAB_LO", TABLE_BASE << 4),)),
        good,
        MALI,
    ),
    Case("image", "signed: image writable", "RANGE", image_writable, hostile(IMAGE_READABLE)),
)


# What becomes of the owner's traces while a fault stays: harmless ones are replayed as before.
OWNERS = Case("owner", "the owner's trace", "OK", owners, good, promised=False)


def cases_of(gpu: str) -> list[Case]:
    """The cases that a GPU has."""
    return [case for case in CASES if gpu in case.gpus]


def case_of(gpu: str, name: str) -> Case:
    """The case of that name that a GPU has."""
    return next(case for case in cases_of(gpu) if case.name == name)
