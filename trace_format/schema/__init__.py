# SPDX-License-Identifier: BSD-2-Clause
"""The one description of every layout that two programs share: files, memory, constants in a firmware. Each format
has a module here, in the words of `vocabulary.py`; the names of the trace format are given here too.

Not in here: what actions mean (`trace_format/opcodes.py`), and reading and writing (`trace_format/packing.py`).

Read first: vocabulary.py
"""

from trace_format.schema.capture import CAPTURE, COUNTERS
from trace_format.schema.firmware import BOARD, DEVICE
from trace_format.schema.log import LOG
from trace_format.schema.mailbox import MAILBOX, NORMAL_WORLD
from trace_format.schema.optee import OPTEE
from trace_format.schema.report import REPORT
from trace_format.schema.store import STORE
from trace_format.schema.trace import (
    ALIGNMENT,
    DTYPE_BYTES,
    ENUMERATIONS,
    HASH_BYTES,
    HEAD_SECTIONS,
    HEADER_FLAG_ENCRYPTED,
    HEADER_FLAG_RAW,
    KEEP_SLOTS,
    MAX_CARVEOUT_BYTES,
    MAX_CHUNK_BYTES,
    MAX_CODE_BITS,
    MAX_ENVELOPE_BYTES,
    MAX_HEAD_BYTES,
    MAX_RANK,
    MAX_RECIPIENTS,
    MAX_SECTIONS,
    MAX_SLOT_BYTES,
    MAX_SLOTS,
    MAX_TIME_BUDGET_US,
    MIN_CHUNK_BYTES,
    PAGE_BYTES,
    PLANE_SIZE_BYTES,
    PLANES,
    SECTION_FLAG_OPTIONAL,
    SIGNED_MAGIC,
    SLOT_FLAG_BOUND,
    STRUCTURES,
    TRACE,
    TRACE_MAGIC,
    VERSION_MAJOR,
    VERSION_MINOR,
    Action,
    Codec,
    DType,
    Gpu,
    Header,
    Manifest,
    Section,
    SectionType,
    SignedHeader,
    Slot,
    SlotKind,
)
from trace_format.schema.trust import TRUST
from trace_format.schema.vocabulary import Blob, Format, List, Nested, Reserved, Text

FORMATS = (TRACE, COUNTERS, CAPTURE, REPORT, LOG, MAILBOX, NORMAL_WORLD, DEVICE, BOARD, OPTEE, TRUST, STORE)

__all__ = [
    "ALIGNMENT",
    "BOARD",
    "CAPTURE",
    "COUNTERS",
    "DEVICE",
    "DTYPE_BYTES",
    "ENUMERATIONS",
    "FORMATS",
    "HASH_BYTES",
    "HEADER_FLAG_ENCRYPTED",
    "HEADER_FLAG_RAW",
    "HEAD_SECTIONS",
    "KEEP_SLOTS",
    "LOG",
    "MAILBOX",
    "MAX_CARVEOUT_BYTES",
    "MAX_CHUNK_BYTES",
    "MAX_CODE_BITS",
    "MAX_ENVELOPE_BYTES",
    "MAX_HEAD_BYTES",
    "MAX_RANK",
    "MAX_RECIPIENTS",
    "MAX_SECTIONS",
    "MAX_SLOTS",
    "MAX_SLOT_BYTES",
    "MAX_TIME_BUDGET_US",
    "MIN_CHUNK_BYTES",
    "NORMAL_WORLD",
    "OPTEE",
    "PAGE_BYTES",
    "PLANES",
    "PLANE_SIZE_BYTES",
    "REPORT",
    "SECTION_FLAG_OPTIONAL",
    "SIGNED_MAGIC",
    "SLOT_FLAG_BOUND",
    "STORE",
    "STRUCTURES",
    "TRACE",
    "TRACE_MAGIC",
    "TRUST",
    "VERSION_MAJOR",
    "VERSION_MINOR",
    "Action",
    "Blob",
    "Codec",
    "DType",
    "Format",
    "Gpu",
    "Header",
    "List",
    "Manifest",
    "Nested",
    "Reserved",
    "Section",
    "SectionType",
    "SignedHeader",
    "Slot",
    "SlotKind",
    "Text",
]
