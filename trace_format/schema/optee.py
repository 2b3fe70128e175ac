# SPDX-License-Identifier: BSD-2-Clause
"""What the pseudo-TA of OP-TEE and its clients share besides its commands."""

from __future__ import annotations

from construct import Struct

from trace_format.schema import trace
from trace_format.schema.vocabulary import Format, List, Text, numbers, u32, u64

# A status as a TEE_Result: in the range that GlobalPlatform leaves to implementations for errors, by the status's
# own low bits, so that it does not change when other statuses come.
GRAMOPHONE_RESULT_ERROR = 0x80000000
GRAMOPHONE_RESULT_STATUS = 0x0FFFFFFF
GRAMOPHONE_INPUT = trace.SlotKind.INPUT.value
GRAMOPHONE_OUTPUT = trace.SlotKind.OUTPUT.value
GRAMOPHONE_PARAMETER = trace.SlotKind.PARAMETER.value

Slot = Struct(
    "name" / Text(40) * "as in the trace, so of at most 32 bytes: a NUL follows",
    "kind" / u32 * "SlotKind, as in the trace",
    "dtype" / u32 * "DType, as in the trace",
    "rank" / u32 * "dimensions used, 1 to 6",
    "bound" / u32 * "1: the recording has a value; else 0",
    "dims" / List(trace.MAX_RANK, u32) * "shape, outermost first; unused ones zero",
    "bytes" / u64 * "of dense data",
)

Network = Struct(
    "name" / Text(40) * "as in the trace, so of at most 32 bytes: a NUL follows",
    "first_slot" / u32 * "its slots are those from this one on",
    "slot_count" / u32 * "how many they are",
    "predicted_us" / u32 * "of a replay, as the trace says; 0: it does not",
    "longest_job_us" / u32 * "of it; 0: not known",
    "period_us" / u32 * "it is to run so often; 0: whenever somebody asks",
    "priority" / u32 * "as the trace says",
)

OPTEE = Format(
    "optee",
    "what the pseudo-TA and its clients share besides its commands",
    {
        "gramophone_slot": (Slot, "answer of GRAMOPHONE_DESCRIBE"),
        "gramophone_network": (Network, "answer of GRAMOPHONE_DESCRIBE_NETWORK"),
    },
    constants=numbers(vars()),
    prefix="",
)
