# SPDX-License-Identifier: BSD-2-Clause
"""The rollback store: what bare-metal firmware keeps of versions in flash, where a reboot does not change it."""

from __future__ import annotations

from construct import Const, Struct

from trace_format.schema.vocabulary import Blob, Described, Format, Reserved, numbers, u32

STORE_MAGIC = b"GRSTORE1"
STORE_BANKS = 2
STORE_PAIRS = 64  # of a bank: each record lies there twice
STORE_BANK_BYTES = 16384  # of 128 records
STORE_NAMES = 32  # that have a version, the trust policy's included


class StoreKind(Described):
    """What a record is about."""

    TRACE = 1, "the highest security version under which a trace of this name was replayed"
    POLICY = 2, "the highest version of the trust policy under which a trace was replayed"
    BANK = 3, "all that lies before it in this bank was copied; version: how often banks were changed, from 1"


StoreRecord = Struct(
    "magic" / Const(STORE_MAGIC) * "this is a record",
    "kind" / u32 * "StoreKind",
    "version" / u32 * "what StoreKind says, at least 1",
    "name" / Blob(64) * "of the trace, as in its manifest; else zeros",
    "reserved" / Reserved(16) * "zero",
    "hash" / Blob(32) * "SHA-256 of all that comes before",
)

STORE = Format(
    "store",
    "the rollback store",
    {"store_record": (StoreRecord, "a record; a bank is records one after the other, and then erased flash")},
    (StoreKind,),
    constants=numbers(vars()),
)
