# SPDX-License-Identifier: BSD-2-Clause
"""What a signed trace needs of a device, read from it before anything is verified: GPU, secure memory, slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from host_tools.model import secure_memory
from host_tools.model.secure_memory import BEFORE_HEAD_BYTES, aligned
from host_tools.support.gpu_folders import DEFAULT_GPU
from signing import encryption
from signing.delivery import Delivery
from signing.envelope import Envelope
from signing.keys import Algorithm
from signing.trust import Policy
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.options import NO_DECRYPTION
from tee_replayer.generator.status import Report
from tee_replayer.generator.target import drivers
from trace_format import layout, packing
from trace_format import profile as profiles
from trace_format.actions import Op
from trace_format.errors import ProfileError, TraceError
from trace_format.operators import OPERATORS, Operator, used
from trace_format.schema import MAX_CARVEOUT_BYTES
from trace_format.schema.trust import MAX_TRUST_BYTES, KeyKind
from trace_format.trace import Trace

# Besides the memory of a trace that cannot be read: page table of a V3D (4 MiB at most), head (1 MiB), workspace.
LOADER_BYTES = 16 << 20
MIB = 1 << 20
STRANGER = (1).to_bytes(32, "big")  # a private key that everybody has
PROTECTED_MORE_BYTES = 2  # under a trust policy, which has longer numbers of algorithms
ML_DSA_WORKSPACE_BYTES = 9152  # tee_replayer/core/crypto.h


def claimed(delivery: Delivery) -> dict[str, Any]:
    """The manifest of a trace that may be damaged elsewhere; empty when it cannot be read."""
    try:
        return delivery.manifest
    except TraceError:
        return {}


def operators_in(delivery: Delivery) -> list[Operator]:
    """Operators that the device computes for it on the CPU; none where it is damaged."""
    return used(delivery.trace.actions) if delivery.trace else []


def is_streamed(delivery: Delivery) -> bool:
    """Whether a device made for it reads pieces of it while jobs run; not where it is damaged."""
    try:
        return layout.is_streamed(delivery.header)
    except TraceError:
        return False


def decryption_for(delivery: Delivery) -> Decryption:
    """What a device made for it needs to read it: the first key at hand that it is for."""
    try:
        kids = encryption.recipients(delivery.signed.trace) if layout.is_encrypted(delivery.header) else ()
    except TraceError:
        return NO_DECRYPTION
    if not kids:
        return NO_DECRYPTION
    found = encryption.key_for(kids, encryption.keys_at_hand())
    return Decryption(True, encryption.key_bytes(found[1]) if found else STRANGER)


def algorithms_in(delivery: Delivery) -> frozenset[KeyKind]:
    """Kinds of keys that the policies in it name; none where they are malformed."""
    try:
        messages = delivery.signed.signatures[1:]
        return frozenset(key.kind for one in messages for key in Policy.decode(one.payload or b"").keys)
    except TraceError:
        return frozenset()


def gpu_of(delivery: Delivery, gpu: str | None) -> str:
    """The virtual GPU to use: `gpu`, or else the one that the trace is for; where there is none, any."""
    try:
        claim = profiles.for_gpu(claimed(delivery).get("gpu", -1)).name
    except ProfileError:
        claim = ""
    return gpu or (claim if claim in drivers() else DEFAULT_GPU)


def secure_bytes(delivery: Delivery, cached: int = 0) -> int:
    """Secure memory that a replayer takes for a trace, to the byte: tee_replayer/core/load.c.

    Where the trace is damaged, it is so much that the device gets far enough to find that out.

    Args:
        delivery: the signed trace.
        cached: bytes at the carve-out's end that the device caches, and so keeps from the GPU.
    """
    if delivery.trace is None:
        return min(int(claimed(delivery).get("carveout_bytes", 0)), MAX_CARVEOUT_BYTES) + LOADER_BYTES
    return memory_for(delivery.trace, delivery.header, cached, _judged_bytes(delivery))


def _judged_bytes(delivery: Delivery) -> int:
    """Memory for what a device judges by a trust policy (features/trust/trust.c); 0 where it has one key."""
    signed = delivery.signed
    if isinstance(signed.message, Envelope):
        return 0
    more = aligned(BEFORE_HEAD_BYTES + PROTECTED_MORE_BYTES) - aligned(BEFORE_HEAD_BYTES)  # before the head
    room = aligned(BEFORE_HEAD_BYTES + PROTECTED_MORE_BYTES) + MAX_TRUST_BYTES
    entries = (entry for message in signed.signatures for each in message.by_kid.values() for entry in each)
    is_hybrid = any(entry.algorithm is Algorithm.ML_DSA_44 for entry in entries)
    work = ML_DSA_WORKSPACE_BYTES if is_hybrid else 0
    return signed.offset - packing.size_of("signed_header") + 2 * room + more + work


def memory_for(trace: Trace, header: Mapping[str, Any], cached: int = 0, judged: int = 0) -> int:
    """As `secure_bytes`, for a trace and its header, with `judged` bytes besides."""
    sizes = header["head_bytes"], header["chunk_bytes"]
    return secure_memory.memory_for(trace, *sizes, cached=cached, judged=judged)


def what_helps(delivery: Delivery, report: Report) -> str:
    """What makes a replayer that can do what failed for lack of memory or of an operator; "" for others."""
    if report.name == "MEMORY":
        enough = -(-secure_bytes(delivery) // MIB)
        return f"'carveout_mib = {enough}' in its device file gives it enough"
    if report.name == "ACTION" and report.op == Op.OPERATE:
        names = ", ".join(f'"{OPERATORS[operator].name}"' for operator in operators_in(delivery))
        return f"a replayer whose device file has 'operators = [{names}]' has all operators that it needs"
    return ""
