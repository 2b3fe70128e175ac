"""What the pseudo-TA of OP-TEE says of a slot of the loaded trace."""

from __future__ import annotations

from construct import Struct

from trace_format.schema.trace import MAX_RANK
from trace_format.schema.vocabulary import Format, List, Text, u32, u64

Slot = Struct(
    "name" / Text(40) * "as in the trace, so of at most 32 bytes: there is a NUL behind it",
    "kind" / u32 * "SlotKind, as in the trace",
    "dtype" / u32 * "DType, as in the trace",
    "rank" / u32 * "dimensions used, 1 to 6",
    "bound" / u32 * "1: the recording has a value; else 0",
    "dims" / List(MAX_RANK, u32) * "shape, outermost first; unused ones zero",
    "bytes" / u64 * "of dense data",
)

OPTEE_SLOT = Format(
    "slot",
    "the pseudo-TA's description of a slot",
    {"gramophone_slot": (Slot, "answer of GRAMOPHONE_DESCRIBE")},
    prefix="",
)
