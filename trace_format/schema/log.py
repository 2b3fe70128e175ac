# SPDX-License-Identifier: BSD-2-Clause
"""The replay log: what a device says of each boot, load and replay, chained and authenticated."""

from __future__ import annotations

from construct import Const, Struct

from trace_format.schema.vocabulary import Blob, Described, Format, u32, u64

LOG_MAGIC = b"GRLOGEN1"


class LogKind(Described):
    """What an entry is about."""

    BOOT = 1, "the device started with this log; subject: SHA-256 of the firmware"
    LOAD = (
        2,
        "a trace was verified and loaded; inputs and outputs say under which trust policy, if any",
    )
    REFUSAL = 3, "a trace was not loaded; subject and the trace's fields are zero when its signature was not good"
    REPLAY = 4, "a replay, whether it succeeded or not"


LogEntry = Struct(
    "magic" / Const(LOG_MAGIC) * "this is an entry",
    "sequence" / u64 * "number of the entry, from 0, over all boots",
    "boot" / u64 * "number of the boot, from 1",
    "kind" / u32 * "LogKind",
    "status" / u32 * "what happened: Status, as in the status report",
    "phase" / u32 * "phase of the status report",
    "action" / u32 * "index of the action that failed",
    "op" / u32 * "its opcode",
    "offset" / u32 * "register, slot, line or item of the status report",
    "expected" / u32 * "value that was waited for; for a fault the upper 32 bits of its GPU address, or 0",
    "seen" / u32 * "value that was there instead; for a fault the GPU's status bits",
    "retries" / u32 * "resets after a divergence",
    "security_version" / u32 * "of the trace",
    "previous" / Blob(32) * "SHA-256 of all bytes of the entry before; zeros in entry 0",
    "subject" / Blob(32) * "SHA-256 of the trace's head, which the signature covers; of a boot, of the firmware",
    "trace_id" / Blob(16) * "of the trace's manifest",
    "inputs"
    / Blob(32)
    * "hash of inputs and parameters; zeros when it was not wanted, or the replay failed; of a load the trust "
    "policy's SHA-256, or zeros",
    "outputs"
    / Blob(32)
    * "hash of outputs; zeros as for inputs; of a load the trust policy's version, 4 bytes, and zeros",
    "mac" / Blob(32) * "HMAC-SHA-256 of all that comes before, under the device's log key",
)

LogTail = Struct(
    "entries" / u64 * "entries written so far",
    "boots" / u64 * "boots so far",
    "hash" / Blob(32) * "SHA-256 of the last entry; zeros when there is none",
)

LOG = Format(
    "log",
    "the replay log",
    {
        "log_entry": (LogEntry, "one entry; a log is entries one after the other"),
        "log_tail": (LogTail, "where a log ends: what the device keeps where the normal world cannot change it"),
    },
    (LogKind,),
)
