# SPDX-License-Identifier: BSD-2-Clause
"""The trust policy: whose signatures a device takes for what, in a document that is signed itself.

A device has one compiled in, and takes a newer one when enough of the old one's root keys and enough of the new
one's have signed it (docs/adr/0055-trust-policy.md).
"""

from __future__ import annotations

import enum

from construct import Const, Struct

from trace_format.schema.vocabulary import Blob, Format, Reserved, Text, numbers, u8, u16, u32, u64

TRUST_MAGIC = b"\x89GTP\r\n\x1a\n"
TRUST_VERSION_MAJOR = 1
TRUST_VERSION_MINOR = 0
MAX_TRUST_KEYS = 16
MAX_TRUST_RULES = 16
MAX_TRUST_DEVICES = 32
MAX_TRUST_REVOKED = 32
MAX_TRUST_BYTES = 5216  # with as many as there can be of all
MAX_TRUST_SIGNATURES = 16  # of a trace, and of a policy; a hybrid key has two
MAX_TRUST_POLICIES = 32  # that a signed trace brings
MAX_TRUST_ENVELOPE_BYTES = 131072  # signatures of a trace, and the policies
TRUST_PREFIX = 1  # flag: the rule's name is what names begin with
TRUST_SIGNED_WEIGHTS = 2  # flag: traces must have no parameters, whose values callers give


class KeyKind(enum.IntEnum):
    """What a key signs with."""

    ES256 = 1
    ES256_ML_DSA_44 = 2  # hybrid: both must sign
    ES384 = 3
    ED25519 = 4


# What precedes a key in its SubjectPublicKeyInfo (RFC 5480, RFC 8410); a hybrid key has that of ES256.
SPKI_ES256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
SPKI_ES384 = bytes.fromhex("3076301006072a8648ce3d020106052b81040022036200")
SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")


TrustPolicy = Struct(
    "magic" / Const(TRUST_MAGIC) * "this is a trust policy",
    "version_major" / u16 * "readers refuse another version of the format than 1.0",
    "version_minor" / u16 * "0",
    "bytes" / u32 * "size of the whole policy",
    "version" / u32 * "of this policy, from 1; a new one has one more",
    "key_count" / u8 * "entries of keys, at most 16",
    "rule_count" / u8 * "entries of rules, at most 16",
    "device_count" / u8 * "entries of devices, at most 32",
    "revoked_count" / u8 * "entries of revoked keys, at most 32",
    "not_before" / u64 * "seconds since 1970 (UTC) from which it holds; 0: always",
    "not_after" / u64 * "seconds since 1970 (UTC) to which it holds; 0: for ever",
    "root_keys" / u32 * "who signs policies: bit n is key n",
    "root_threshold" / u32 * "how many of them it takes, at least 1",
    "name" / Text(32) * "whose policy it is: a new one has the same name",
    "reserved" / Reserved(16) * "must be zero",
)

TrustKey = Struct(
    "kid" / Blob(16) * "key id, as in an envelope: first 16 bytes of the SHA-256 of the SubjectPublicKeyInfo; "
    "of a hybrid key see above; keys are in ascending order of it",
    "kind" / u32 * "KeyKind",
    "reserved" / Reserved(4) * "must be zero",
    "key" / Blob(104) * "ES256: 65 bytes, ES384: 97, 04 || x || y; Ed25519: 32; hybrid: that of ES256, then the "
    "SHA-256 of the ML-DSA-44 key; then zeros",
)

TrustRule = Struct(
    "name" / Text(64) * "name of the traces that it is about, or what they begin with; the first that fits counts",
    "keys" / u32 * "who signs these traces: bit n is key n",
    "threshold" / u32 * "how many of them it takes, at least 1",
    "flags" / u32 * "bit 0: prefix, bit 1: signed weights; others must be zero",
    "gpu" / u32 * "Gpu that they are for; 0: any",
    "min_security_version" / u32 * "older ones are refused",
    "devices" / u32 * "on which devices: bit n is device n; 0: all",
    "carveout_bytes" / u64 * "most that they may address; 0: no limit",
    "time_budget_us" / u64 * "longest time budget (microseconds); 0: no limit",
    "platform" / Text(16) * "board or environment that they are for; empty: any",
    "reserved" / Reserved(8) * "must be zero",
)

TrustDevice = Struct("id" / Blob(16) * "id of a device")
TrustRevoked = Struct(
    "kid"
    / Blob(16)
    * "id of a key that had rights once; in ascending order; a new policy has those of the last one"
)

TRUST = Format(
    "trust",
    "the trust policy",
    {
        "trust_policy": (
            TrustPolicy,
            "whose signatures count for what; `trust_key`, `trust_rule`, `trust_device`, `trust_revoked` follow",
        ),
        "trust_key": (TrustKey, "a key"),
        "trust_rule": (TrustRule, "who signs which traces, and what these may be"),
        "trust_device": (TrustDevice, "a device"),
        "trust_revoked": (TrustRevoked, "a key that counts no more"),
    },
    (KeyKind,),
    {name: value for name, value in numbers(vars()).items() if name.startswith(("MAX_TRUST", "TRUST_"))},
    byte_strings={"SPKI_ES256": SPKI_ES256, "SPKI_ES384": SPKI_ES384, "SPKI_ED25519": SPKI_ED25519},
)
