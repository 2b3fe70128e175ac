# SPDX-License-Identifier: BSD-2-Clause
"""The trace and the signed trace: files.

Everything is little-endian, naturally aligned and of fixed size. `trace_format.emit` writes the C header,
docs/FORMAT.md and the Kaitai description from these objects; nothing is said twice.
"""

from __future__ import annotations

import enum
from typing import Any

from construct import Const, Struct

from trace_format.schema.vocabulary import Blob, Format, List, Reserved, Text, numbers, u8, u16, u32, u64

VERSION_MAJOR = 1
VERSION_MINOR = 0
TRACE_MAGIC = b"\x89GTR\r\n\x1a\n"  # as PNG's: a transfer that mangles line ends or strips bit 7 is seen at once
SIGNED_MAGIC = b"\x89GSG\r\n\x1a\n"
ALIGNMENT = 8
PAGE_BYTES = 4096
MAX_SECTIONS = 64
MAX_SLOTS = 256  # a network of the public Mali recordings has 138 parameters, a slot each
MAX_RANK = 6
MAX_SLOT_BYTES = 1 << 32  # of a tensor, its elements next to each other
MAX_HEAD_BYTES = 1 << 20
MAX_CARVEOUT_BYTES = 1 << 32  # offsets in actions have 32 bits
MAX_ENVELOPE_BYTES = 1024
MAX_TIME_BUDGET_US = 600_000_000  # ten minutes; a device takes no longer, for loading or for a replay
MIN_CHUNK_BYTES = 4096
MAX_CHUNK_BYTES = 65536
KEEP_SLOTS = 8
HASH_BYTES = 32  # SHA-256
MAX_NETWORKS = 8  # of a joint trace
MAX_PRIORITY = 255
MAX_PIECES = 256  # of a streamed trace
MAX_PIECE_BYTES = 4 << 20  # decoded between two looks at an interrupt line, if it is packed


class SectionType(enum.IntEnum):
    """What a section holds. Those below 0x10 lie in the head, which is what the signature covers."""

    MANIFEST = 1
    SLOTS = 2
    CHUNKS = 3
    ENCRYPTION = 4  # of encrypted traces only: a COSE_Encrypt message, who can read the body
    NETWORKS = 5  # of joint traces only: which actions, slots and pages are whose, those of the image among them
    PIECES = 6  # of streamed traces only: which bytes of STREAM lie where, for which jobs
    ACTIONS = 16
    IMAGE = 17
    STREAM = 18  # of streamed traces only: memory that is read piece by piece while jobs run
    NOTES = 32


class Codec(enum.IntEnum):
    """How a section's bytes are stored."""

    STORED = 0
    LZ4 = 1  # one block, without a frame


class Gpu(enum.IntEnum):
    """GPU families; each has a profile."""

    V3D42 = 1
    MALI_G71 = 2
    V3D71 = 4  # 3 was a Mali G52 that no replayer knew
    MALI_G72 = 5
    MALI_G52R1 = 6
    MALI_G31 = 7
    MALI_G610 = 8


class SlotKind(enum.IntEnum):
    """Which way a slot's data goes."""

    INPUT = 1
    OUTPUT = 2
    PARAMETER = 3
    INTERNAL = 4  # an operator's: callers neither give nor get it

    @property
    def is_given(self) -> bool:
        """Callers give the data."""
        return self in (SlotKind.INPUT, SlotKind.PARAMETER)


class DType(enum.IntEnum):
    """Element types of slots; the value's order is never reused."""

    FLOAT32 = 1
    FLOAT16 = 2
    INT32 = 3
    UINT32 = 4
    INT16 = 5
    UINT16 = 6
    INT8 = 7
    UINT8 = 8


DTYPE_BYTES = {
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.INT32: 4,
    DType.UINT32: 4,
    DType.INT16: 2,
    DType.UINT16: 2,
    DType.INT8: 1,
    DType.UINT8: 1,
}

HEADER_FLAG_RAW = 1  # a recording that no pass has touched
HEADER_FLAG_ENCRYPTED = 2  # the body is; chunk hashes are of what lies in the file
HEADER_FLAG_OLD_JOINT = 4  # several networks that all reach the whole image: no reader takes it any more
HEADER_FLAG_JOINT = 8  # several networks; not raw
HEADER_FLAG_STREAMED = 16  # memory is read while jobs run; not raw
NETWORK_FLAG_EXCLUSIVE = 1  # working memory is common to all: each replay begins anew
MAX_RECIPIENTS = 16  # of an encrypted trace
PIECE_FLAG_RESIDENT = 1  # stays for later replays: nothing else lies there
SECTION_FLAG_OPTIONAL = 1  # a reader that does not know the type may pass over it
SLOT_FLAG_BOUND = 1  # the image holds a value; a caller may leave it out

Header = Struct(
    "magic" / Const(TRACE_MAGIC) * "file magic",
    "version_major" / u16 * "readers refuse another major version",
    "version_minor" / u16 * "grows when something optional is added",
    "header_bytes" / u32 * "size of this structure: 64",
    "trace_bytes" / u64 * "size of the whole trace",
    "head_bytes"
    / u32
    * "size of the head (header, section table, manifest, slots, chunk hashes): the signed payload",
    "chunk_bytes"
    / u32
    * "size of a chunk of the body, a power of two from 4096 to 65536; the last may be shorter",
    "chunk_count" / u32 * "number of chunks; (trace_bytes - head_bytes) / chunk_bytes, rounded up",
    "section_count" / u16 * "entries of the section table, which follows this header",
    "flags"
    / u16
    * "bit 0: raw recording; bit 1: the body is encrypted; bit 3: joint; bit 4: streamed; others must be zero",
    "reserved" / Reserved(24) * "must be zero",
)

Section = Struct(
    "type" / u16 * "SectionType",
    "flags" / u16 * "bit 0: optional; others must be zero",
    "codec" / u8 * "Codec",
    "reserved" / Reserved(3) * "must be zero",
    "offset" / u64 * "from the start of the trace, a multiple of 8, ascending, gaps shorter than 8 and zero",
    "stored_bytes" / u64 * "bytes in the file",
    "raw_bytes" / u64 * "bytes after decoding",
)

Manifest = Struct(
    "name" / Text(64) * "name of the trace",
    "trace_id" / Blob(16) * "identity: SHA-256 of actions and image, first 16 bytes",
    "source_hash" / Blob(32) * "SHA-256 of the raw recording's file; zero in a raw recording",
    "security_version" / u32 * "compared with the device's rollback counter",
    "gpu" / u32 * "Gpu",
    "gpu_id" / u32 * "expected value of the profile's identity register",
    "gpu_id_mask" / u32 * "bits of gpu_id that are compared",
    "revision_min" / u32 * "lowest value of the profile's revision field that the trace was made for",
    "revision_max" / u32 * "highest value of it",
    "core_mask" / u64 * "shader cores that must be there",
    "profile_id"
    / u64
    * "register policy: first 8 bytes of the SHA-256 of the GPU profile as canonical JSON, as a number",
    "carveout_bytes" / u64 * "memory that the trace addresses, a multiple of 4096, at most 4 GiB",
    "image_bytes" / u64 * "the image is decoded to the carve-out's first image_bytes bytes",
    "va_bytes" / u64 * "GPU virtual addresses used lie below this; sizes the page table",
    "time_budget_us" / u64 * "a replay that takes longer is stopped (microseconds); at most ten minutes",
    "action_count" / u32 * "actions in the stream",
    "job_count" / u32 * "jobs in one replay",
    "retry_limit" / u32 * "resets and retries allowed for one replay",
    "slot_count" / u32 * "entries of the slots section",
    "recorder" / Text(32) * "what made the recording",
    "kernel" / Text(64) * "operating system kernel and its GPU driver",
    "driver" / Text(64) * "user-space GPU driver",
    "framework" / Text(64) * "machine learning framework",
    "reserved" / Reserved(88) * "must be zero",
)

Slot = Struct(
    "name" / Text(32) * "unique within the trace",
    "kind" / u8 * "SlotKind",
    "dtype" / u8 * "DType",
    "rank" / u8 * "dimensions used, 1 to 6",
    "flags" / u8 * "bit 0: bound, the image holds a value; others must be zero",
    "address_space" / u16 * "GPU address space",
    "reserved" / Reserved(2) * "must be zero",
    "address" / u64 * "GPU virtual address of the first element",
    "dims" / List(MAX_RANK, u32) * "shape, outermost first; unused ones zero",
    "strides" / List(MAX_RANK, u32) * "bytes from an element to the next along each dimension; unused ones zero",
    "reserved2" / Reserved(32) * "must be zero",
)

Network = Struct(
    "name" / Text(32) * "unique within the trace",
    "first_action" / u32 * "index of its first action: where those of the network before it end",
    "replay_start" / u32 * "index of its ReplayStart, the only one of its actions",
    "end_action" / u32 * "index after its last action",
    "first_slot" / u32 * "index of its first slot: where those of the network before it end",
    "slot_count" / u32 * "its slots",
    "first_page"
    / u32
    * "first page of its working memory in the carve-out: the image's end, or where the network's before it ends",
    "page_count" / u32 * "pages of its working memory",
    "flags" / u32 * "bit 0: exclusive, set in all rows or none; others must be zero",
    "predicted_us" / u32 * "what a replay's jobs take, as the time model has it (microseconds); 0: not known",
    "longest_job_us" / u32 * "the longest of them, at most predicted_us; 0: not known",
    "period_us" / u32 * "it is asked for so often (microseconds); 0: when somebody asks",
    "priority" / u32 * "0 to 255, a higher one first",
    "retry_limit" / u32 * "resets and retries allowed for one replay, at most the manifest's",
    "time_budget_us" / u32 * "a replay that takes longer is stopped (microseconds), 1 to the manifest's",
    "reserved" / Reserved(40) * "must be zero",
)

Piece = Struct(
    "offset" / u64 * "of its stored bytes in STREAM",
    "stored_bytes" / u32 * "bytes in the file",
    "bytes" / u32 * "bytes after decoding, a multiple of 4096, at most 4 MiB",
    "page" / u32 * "page of the carve-out, behind the image, where it begins",
    "from_job"
    / u32
    * "first job during which it may be written: no job from this one on uses the memory otherwise",
    "first_job" / u32 * "first job that needs it; rows ascend by it",
    "last_job" / u32 * "last job that needs it",
    "codec" / u8 * "Codec",
    "flags" / u8 * "bit 0: resident; others must be zero",
    "reserved" / Reserved(6) * "must be zero",
)

Action = Struct(
    "op" / u8 * "opcode, see the action table",
    "flags" / u8 * "by opcode",
    "arg" / u16 * "by opcode",
    "value" / u32 * "by opcode",
    "a" / u32 * "by opcode",
    "b" / u32 * "by opcode",
)

SignedHeader = Struct(
    "magic" / Const(SIGNED_MAGIC) * "file magic",
    "version_major" / u16 * "readers refuse another major version",
    "version_minor" / u16 * "grows when something optional is added",
    "envelope_bytes" / u32 * "size of the COSE message that follows, at most 1024; zero bytes fill up to 8",
    "trace_bytes" / u64 * "size of the trace, which follows the envelope",
    "reserved" / Reserved(8) * "must be zero",
)

# name -> (structure, one line of what it is); the order of docs/FORMAT.md
STRUCTURES: dict[str, tuple[Any, str]] = {
    "signed_header": (SignedHeader, "start of a signed trace (.sgtr)"),
    "header": (Header, "start of a trace (.gtr)"),
    "section": (Section, "entry of the section table"),
    "manifest": (Manifest, "what the trace is, for which GPU, and what it may use"),
    "slot": (Slot, "typed input, output or parameter, or an operator's operand"),
    "network": (Network, "one of the networks of a joint trace"),
    "piece": (Piece, "memory of a streamed trace that is read for some jobs"),
    "action": (Action, "one step of the replay"),
}
ENUMERATIONS: tuple[type[enum.IntEnum], ...] = (SectionType, Codec, Gpu, SlotKind, DType)
HEAD_SECTIONS = (
    SectionType.MANIFEST,
    SectionType.SLOTS,
    SectionType.CHUNKS,
)  # and PIECES, NETWORKS and ENCRYPTION where flags say so
TRACE = Format("trace", "the trace format", STRUCTURES, ENUMERATIONS, numbers(vars()))
