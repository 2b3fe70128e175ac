# SPDX-License-Identifier: BSD-2-Clause
"""The report: what a replayer says of its last load or replay."""

from __future__ import annotations

from construct import Struct

from trace_format.schema.vocabulary import Described, Format, Reserved, u32, u64


class Status(Described):
    """What happened.

    Any two values differ in 10 bits or more, and so from 0 and from all ones: a glitch does not turn one into
    another. Each but the trust policy's and those from ENCRYPTED to FIRMWARE is a constant of one AArch64
    instruction, and OK one that `cmp` takes. Those from DIVERGED to FAULT are worth a reset and another try.
    """

    OK = 0x00FFF000, "done"
    ARGUMENT = 0xFFFFD821, "a function was called with a value that it does not take"
    MEMORY = 0xFFF800FF, "the secure memory is too small or misaligned for this trace"
    READ = 0xD803FFFF, "the signed trace could not be read"
    FORMAT = 0xEF8B0000, "this is not a signed trace of format version 1.0"
    SIZE = 0xFFFF07D0, "the sizes of the signed trace contradict each other"
    ENVELOPE = (
        0x0565FFFF,
        "the envelope is not in its one encoding: COSE_Sign1 of ES256, or COSE_Sign",
    )
    KEY = 0x00009DB9, "the trace is signed with another key than this device's"
    SIGNATURE = 0x3BFC0000, "the signature does not belong to this trace"
    HEADER = 0x000077CA, "the trace's header is malformed, or of another version than 1.0"
    SECTIONS = 0x0000AB67, "the trace's section table is malformed"
    MANIFEST = 0x03FF03FF, "the trace's manifest is malformed"
    TARGET = 0x1FF81FF8, "the trace is for another GPU family"
    PROFILE = 0xC3C3C3C3, "the trace was made under another register policy"
    ROLLBACK = 0x001FFFF8, "the trace is older than this device accepts"
    SLOTS = 0xF001F001, "a slot of the trace is malformed"
    CHUNK = 0xE0FFE0FF, "a chunk of the trace is not what the signed head says"
    CODEC = 0xF800003F, "a section of the trace does not decode"
    ACTION = 0xA498FFFF, "an action of the trace is malformed"
    REGISTER = 0x3F803F80, "the register policy does not allow this access"
    RANGE = 0xF4770000, "an address lies outside what the trace may use"
    IDENTITY = 0xCCCCCCCC, "the GPU is not one that the trace was made for"
    FLOW = 0xF0F0F0F0, "a step of the verification was left out"
    STATE = 0x0FFFFFC0, "no trace is loaded, or a replay is under way that has to end first"
    UNBOUND = 0xFFFF320E, "an input without a recorded value was given no data"
    DIVERGED = 0x1F1F1F1F, "a register has another value than in the recording"
    TIMEOUT = 0x7C7C7C7C, "a register did not get the value waited for in time"
    NO_IRQ = 0x00F800F8, "an interrupt did not come in time"
    BUSY = 0x55555555, "the GPU is still at work where it should be done"
    FAULT = 0x800F800F, "the GPU reported a fault"
    RESET = 0xAAAAAAAA, "the GPU does not come out of a reset"
    BUDGET = 0x66666666, "the trace's time budget is used up"
    REQUEST = 0x99999999, "the request is malformed"
    POWER = 0x33333333, "the GPU's power or clock control does not answer"
    TRUST = 0xF81FF81F, "the trust policy is malformed"
    TRUST_CHAIN = 0x52E6B438, "the next trust policy is not signed by enough keys of the one before and of its own"
    TRUST_OLD = 0xF2A74DE4, "the trust policy is older than one that this device has taken"
    TRUST_TIME = 0x269E0D37, "the trust policy does not hold at this time"
    TRUST_NAME = 0x6513270E, "the trust policy has no rule for a trace of this name"
    THRESHOLD = 0xA6A3A450, "not enough keys that the trust policy names have signed the trace"
    REVOKED = 0x1818E811, "a key that signed the trace is revoked, and not enough others have"
    TRUST_GPU = 0x0ED90475, "the trust policy allows traces of this name on another GPU only"
    TRUST_PLATFORM = 0xE8E25D94, "the trust policy allows traces of this name on another platform only"
    TRUST_DEVICE = 0x81E74EF5, "the trust policy allows traces of this name on other devices only"
    TRUST_LIMITS = 0x36F675CC, "the trace asks for more memory or time than the trust policy allows"
    TRUST_WEIGHTS = 0x6B0D549B, "the trust policy allows no trace whose weights callers give"
    ENCRYPTED = 0x8C773FE6, "the trace is encrypted, and none of this device's keys opens it"
    STORE = 0xF9121EB0, "what this device keeps of versions is damaged or worn, or has no room for another name"
    TRUST_ALGORITHM = 0xF7467AC9, "the trust policy names a key of an algorithm that this replayer has no code for"
    TRUST_HALF = 0xD92B0703, "a hybrid key's signature of the trace lacks its ES256 or its ML-DSA half"
    TRUST_KEY = 0x8F4C29E7, "a hybrid signature brings another ML-DSA key than the trust policy names"
    NETWORKS = 0x9F767C45, "the trace's networks are malformed, or this replayer has no code for several"
    PIECES = 0xD33CE32D, "the pieces of the trace that are read while jobs run are malformed"
    QUEUE = 0x7763C84E, "as many requests wait as this replayer has room for"
    DEADLINE = 0xBF55D42E, "the deadline is over, or with what is due before there is no time for the request"
    STREAM = (
        0x4FDE580F,
        "a command stream has an instruction that no trace may have, or lies where it could change",
    )
    FIRMWARE = (
        0x4B4648A8,
        "the GPU's firmware is not the one that this replayer has, or does not answer as it should",
    )
    LOG = 0xFF03FF03, "the replay log cannot be kept: no room for its entries, no key, or no place for its tail"


class Phase(Described):
    """What the replayer was doing."""

    NONE = 0, "nothing yet"
    LOAD = 1, "loading"
    PROLOGUE = 2, "the actions before ReplayStart"
    REPLAY = 3, "the actions after it"


ReportStruct = Struct(
    "status" / u32 * "Status",
    "phase" / u32 * "Phase",
    "action" / u32 * "index of the action that failed",
    "op" / u32 * "its opcode",
    "offset" / u32 * "register (byte offset), slot or interrupt line that it names; load: index of the item",
    "expected"
    / u32
    * "value that it waited for, of the bits it compares; for a fault the upper 32 bits of its GPU address, or 0",
    "seen" / u32 * "value that was there instead, of the same bits; for a fault the GPU's status bits",
    "retries" / u32 * "resets after a divergence in the last replay",
    "jobs" / u32 * "jobs of the last replay's last try",
    "reserved" / Reserved(4) * "zero",
    "actions" / u64 * "actions executed by the last replay, all tries",
    "secure_bytes" / u64 * "carve-out memory in use",
    "verify_us" / u64 * "from the start of loading until the signature was found good (microseconds)",
    "load_us" / u64 * "from there to the end of loading",
    "replay_us" / u64 * "the last replay",
)

REPORT = Format(
    "report",
    "the replayer's report",
    {
        "report": (
            ReportStruct,
            "what happened last; after a failed load only status, phase and offset say something",
        )
    },
    (Status, Phase),
)
