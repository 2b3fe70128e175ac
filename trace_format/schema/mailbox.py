# SPDX-License-Identifier: BSD-2-Clause
"""The mailbox: how the normal world asks a bare-metal firmware for a replay, and gets the answer."""

from __future__ import annotations

from construct import Const, Struct

from trace_format.schema import trace
from trace_format.schema.report import ReportStruct
from trace_format.schema.vocabulary import Format, Nested, numbers, u32, u64

MAILBOX_RESPONSE_AT = 8192
MAILBOX_DATA_AT = 12288
MAILBOX_BUFFERS = trace.MAX_SLOTS
REQUEST_MAGIC = b"GMBXREQ1"
# Slots of mailbox_buffer structures that are none of the trace's, for firmware with a replay log.
MAILBOX_LOG = 0xFFFFFF01
MAILBOX_NONCE = 0xFFFFFF02
MAILBOX_ATTESTATION = 0xFFFFFF03
# The same for firmware with a queue: with the number of a network added, it begins a request, whose slots follow.
# `bytes` is after how many microseconds it is due (all ones: whenever there is time), `offset` room for a
# mailbox_answer, `step` 0. The first buffer begins a request, whatever its slot.
MAILBOX_REQUEST = 0xFFFFFF04
MAILBOX_ATTESTATION_BYTES = 1024  # room that is enough for any nonce

Request = Struct(
    "magic" / Const(REQUEST_MAGIC) * "this is a request",
    "trace_offset" / u64 * "of the signed trace",
    "trace_bytes" / u64 * "size of the signed trace",
    "repeat" / u32 * "replays",
    "buffer_count" / u32 * "mailbox_buffer structures that follow, at most 256",
)

Buffer = Struct(
    "slot" / u32 * "index in the trace; or MAILBOX_LOG, MAILBOX_NONCE, MAILBOX_ATTESTATION, MAILBOX_REQUEST + n",
    "step" / u32 * "from the data of a replay to that of the next, in bytes; 0: all replays have the same",
    "offset" / u64 * "of the slot's data, or of room for it: dense, in C order; of the first replay",
    "bytes" / u64 * "size of the slot's data, of one replay",
)

Message = Struct(
    "bytes" / u64 * "size of what follows: entries of the log, or the attestation",
)

Answer = Struct(
    "status" / u32 * "what became of a request: why it was refused, or the status of its replay",
    "order" / u32 * "as which of all requests it ended, from 1; 0: it was refused, or has not ended",
)

Response = Struct(
    "magic" / Const(b"GMBXESP1") * "this is the response, complete: written last",
    "replays" / u64 * "replays done",
    "report" / Nested("report", ReportStruct) * "the replayer's",
)

NormalWorldResponse = Struct(
    "mailbox" / Nested("mailbox_response", Response) * "the status report is zeros when the pseudo-TA gave none",
    "result" / u32 * "TEE_Result of the first call that failed, or 0",
    "origin" / u32 * "who gave it: TEEC_ORIGIN_*",
)

MAILBOX = Format(
    "mailbox",
    "the mailbox of a bare-metal firmware",
    {
        "mailbox_request": (Request, "what the firmware is requested to do, at the mailbox's base"),
        "mailbox_buffer": (Buffer, "data for a slot, or room for it"),
        "mailbox_message": (Message, "the start of what firmware with a replay log writes to its buffers"),
        "mailbox_answer": (Answer, "what firmware with a queue says of a request"),
        "mailbox_response": (Response, "the answer, at MAILBOX_RESPONSE_AT"),
    },
    constants=numbers(vars()),
    prefix="",
    includes=("replayer.h",),
)
NORMAL_WORLD = Format(
    "normal_world",
    "the mailbox's answer where OP-TEE serves it",
    {"normal_world_response": (NormalWorldResponse, "what the small normal world leaves at MAILBOX_RESPONSE_AT")},
    prefix="",
    includes=("gramophone_mailbox.h",),
)
