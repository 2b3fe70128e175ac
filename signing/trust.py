# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies: who signs which traces, how many of them it takes, and who may change that.

A policy here is the document alone; `signing.trust_chain` has those that are signed, and `signing.trust_verdict`
what a device makes of a trace under them. Its bytes are `trust_policy` of docs/FORMAT-DEVICE.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from signing.errors import TrustError
from signing.keys import KID_BYTES, PublicKey
from signing.trust_keys import KEY_BYTES, KINDS, Key, check_people
from trace_format import packing
from trace_format.errors import ReservedError, TraceError
from trace_format.schema import TRUST
from trace_format.schema.trust import (
    MAX_TRUST_BYTES,
    MAX_TRUST_DEVICES,
    MAX_TRUST_KEYS,
    MAX_TRUST_REVOKED,
    MAX_TRUST_RULES,
    TRUST_MAGIC,
    TRUST_PREFIX,
    TRUST_SIGNED_WEIGHTS,
    TRUST_VERSION_MAJOR,
    TRUST_VERSION_MINOR,
    KeyKind,
)

assert TRUST.name == "trust"
DEVICE_ID_BYTES = 16
_FLAGS = TRUST_PREFIX | TRUST_SIGNED_WEIGHTS
_POLICY, _KEY, _RULE, _ID = (packing.size_of(f"trust_{name}") for name in ("policy", "key", "rule", "device"))


@dataclass(frozen=True)
class Role:
    """Keys, and how many of them it takes.

    Attributes:
        kids: ids of the keys.
        threshold: at least 1.
    """

    kids: frozenset[bytes]
    threshold: int = 1

    def without(self, kid: bytes) -> Role:
        """The same without a key; the threshold stays."""
        return replace(self, kids=self.kids - {kid})


@dataclass(frozen=True)
class Rule:
    """Who signs which traces, and what these may be.

    Attributes:
        name: of the traces; with `prefix` what their names begin with.
        role: who signs.
        gpu: that they are for, of Gpu; 0: any.
        min_security_version: older ones are refused.
        devices: ids of the devices that they are for; empty: all.
        carveout_bytes, time_budget_us: limits; 0: none.
        platform: that they are for; "": any.
        signed_weights: they must have no parameters.
    """

    name: str
    role: Role
    prefix: bool = False
    gpu: int = 0
    min_security_version: int = 0
    devices: frozenset[bytes] = frozenset()
    carveout_bytes: int = 0
    time_budget_us: int = 0
    platform: str = ""
    signed_weights: bool = False

    def fits(self, name: bytes) -> bool:
        """Whether it is about traces of this name (UTF-8)."""
        own = self.name.encode()
        return name.startswith(own) if self.prefix else name == own

    @property
    def pattern(self) -> str:
        """Its name as people write it."""
        return f"{self.name}*" if self.prefix else self.name


@dataclass(frozen=True)
class Policy:
    """A trust policy.

    Attributes:
        name: whose it is.
        version: from 1.
        keys: all that have a right.
        root: who signs policies.
        rules: the first that fits a trace's name counts.
        revoked: ids of keys that had rights once.
        not_before, not_after: seconds since 1970 (UTC); 0: no limit.
    """

    name: str
    version: int
    keys: tuple[Key, ...]
    root: Role
    rules: tuple[Rule, ...] = ()
    revoked: frozenset[bytes] = frozenset()
    not_before: int = 0
    not_after: int = 0
    _by_kid: dict[bytes, Key] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(sorted(self.keys, key=lambda key: key.kid)))
        object.__setattr__(self, "_by_kid", {key.kid: key for key in self.keys})

    @property
    def raw(self) -> bytes:
        """The document's bytes, as a device has them."""
        return self.encode()

    @property
    def hash(self) -> bytes:
        """SHA-256 of it, as a device's log and attestations have it."""
        return hashlib.sha256(self.raw).digest()

    @property
    def kid(self) -> bytes:
        """Its id, where a key would have one: the first 16 bytes of its SHA-256."""
        return self.hash[:KID_BYTES]

    def key(self, kid: bytes) -> Key | None:
        """The key of an id; None: the policy has none."""
        return self._by_kid.get(kid)

    def rule(self, name: bytes) -> Rule | None:
        """The rule for traces of a name (UTF-8)."""
        return next((rule for rule in self.rules if rule.fits(name)), None)

    @property
    def devices(self) -> list[bytes]:
        """Ids of all devices that rules name."""
        return sorted({device for rule in self.rules for device in rule.devices})

    def roles_of(self, kid: bytes) -> list[str]:
        """What a key may do, in words."""
        rules = [rule.pattern for rule in self.rules if kid in rule.role.kids]
        return [*(["policies"] if kid in self.root.kids else []), *(f"traces {name}" for name in rules)]

    def encode(self) -> bytes:
        """The document's bytes.

        Raises:
            TrustError: it is none that a device takes: see `decode`.
        """
        data = self.packed()
        if self.decode(data) != self:
            raise TrustError("the trust policy says the same thing twice: a key, a device or a rule's name")
        return data

    def packed(self) -> bytes:
        """The same without a look at whether a device takes it; TrustError where the fields cannot say it."""
        kids, devices = [key.kid for key in self.keys], self.devices
        size = _POLICY + len(kids) * _KEY + len(self.rules) * _RULE + (len(devices) + len(self.revoked)) * _ID
        head: dict[str, Any] = {
            "version_major": TRUST_VERSION_MAJOR,
            "version_minor": TRUST_VERSION_MINOR,
            "bytes": size,
            "version": self.version,
            "key_count": len(kids),
            "rule_count": len(self.rules),
            "device_count": len(devices),
            "revoked_count": len(self.revoked),
            "not_before": self.not_before,
            "not_after": self.not_after,
            "root_keys": _mask(self.root.kids, kids),
            "root_threshold": self.root.threshold,
            "name": self.name,
        }
        _counts(head, 0)
        try:
            return b"".join(
                [
                    packing.pack("trust_policy", head),
                    *(packing.pack("trust_key", _key_row(key)) for key in self.keys),
                    *(packing.pack("trust_rule", _rule_row(rule, kids, devices)) for rule in self.rules),
                    *devices,
                    *sorted(self.revoked),
                ]
            )
        except ReservedError as error:
            raise TrustError(f"the trust policy cannot be written: {error}") from None

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Policy:
        """Read a document.

        Args:
            data: all of its bytes.
            offset: where they lie, for errors.

        Raises:
            TrustError: it is not one that a device takes; with the offset.
        """
        if data[:8] != TRUST_MAGIC or len(data) < _POLICY:
            raise TrustError("not a trust policy", offset=offset, expected=TRUST_MAGIC.hex(), found=data[:8].hex())
        try:
            return _read(data, offset)
        except TrustError:
            raise
        except TraceError as error:
            raise TrustError(error.what, offset=error.offset, expected=error.expected, found=error.found) from None


def _mask(kids: Iterable[bytes], every: Sequence[bytes]) -> int:
    """Raises TrustError where one of them is not among the policy's."""
    for kid in kids:
        if kid not in every:
            raise TrustError("a role's key", expected="one of the trust policy's keys", found=kid.hex())
    return sum(1 << every.index(kid) for kid in kids)


def _members(mask: int, every: Sequence[bytes]) -> frozenset[bytes]:
    return frozenset(kid for bit, kid in enumerate(every) if mask >> bit & 1)


def _key_row(key: Key) -> dict[str, Any]:
    return {"kid": key.kid, "kind": key.kind, "key": key.raw.ljust(104, b"\0")}


def _rule_row(rule: Rule, kids: Sequence[bytes], devices: Sequence[bytes]) -> dict[str, Any]:
    return {
        "name": rule.name,
        "keys": _mask(rule.role.kids, kids),
        "threshold": rule.role.threshold,
        "flags": TRUST_PREFIX * rule.prefix | TRUST_SIGNED_WEIGHTS * rule.signed_weights,
        "gpu": rule.gpu,
        "min_security_version": rule.min_security_version,
        "devices": _mask(rule.devices, devices),
        "carveout_bytes": rule.carveout_bytes,
        "time_budget_us": rule.time_budget_us,
        "platform": rule.platform,
    }


def _counts(head: dict[str, Any], offset: int) -> None:
    for name, least, most in (
        ("key_count", 1, MAX_TRUST_KEYS),
        ("rule_count", 0, MAX_TRUST_RULES),
        ("device_count", 0, MAX_TRUST_DEVICES),
        ("revoked_count", 0, MAX_TRUST_REVOKED),
    ):
        if not least <= head[name] <= most:
            raise TrustError(
                name.replace("_count", "s of a policy"),
                offset=offset,
                expected=f"{least} to {most}",
                found=head[name],
            )


def _read(data: bytes, offset: int) -> Policy:
    head = packing.unpack("trust_policy", data[:_POLICY], offset)
    version = (head["version_major"], head["version_minor"])
    if version != (TRUST_VERSION_MAJOR, TRUST_VERSION_MINOR):
        raise TrustError(
            "version of the format", offset=offset + 8, expected="1.0", found=".".join(map(str, version))
        )
    _counts(head, offset)
    counts = {name: head[f"{name}_count"] for name in ("key", "rule", "device", "revoked")}
    size = _POLICY + sum(counts[name] * packing.size_of(f"trust_{name}") for name in counts)
    if size != head["bytes"] or size != len(data) or size > MAX_TRUST_BYTES:
        raise TrustError(
            "size of the trust policy", offset=offset + 12, expected=size, found=f"{head['bytes']}, {len(data)}"
        )
    rows: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    at = _POLICY
    for name, count in counts.items():
        rows[name] = []
        for _ in range(count):
            end = at + packing.size_of(f"trust_{name}")
            rows[name].append((offset + at, packing.unpack(f"trust_{name}", data[at:end], offset + at)))
            at = end
    keys = [_key(row, where) for where, row in rows["key"]]
    kids = [key.kid for key in keys]
    devices = [row["id"] for _, row in rows["device"]]
    revoked = [row["kid"] for _, row in rows["revoked"]]
    for what, ids in (("keys", kids), ("devices", devices), ("revoked keys", revoked)):
        if ids != sorted(set(ids)):
            raise TrustError(
                f"the trust policy's {what}", offset=offset, expected="ids in ascending order", found="another"
            )
    check_people(keys, offset)
    for key in keys:
        if gone := {key.kid, *key.halves}.intersection(revoked):
            raise TrustError(
                f"a key that is revoked and has rights: {key.kid.hex()}, by {min(gone).hex()}", offset=offset
            )
    _text(head["name"], offset + 48)
    if head["version"] == 0 or not head["name"]:
        raise TrustError("the trust policy's name and version", offset=offset, expected="both", found="none")
    if head["not_after"] and head["not_after"] < head["not_before"]:
        raise TrustError(
            "when the trust policy holds", offset=offset + 24, expected="not from its end on", found="that"
        )
    root = _role(head["root_keys"], head["root_threshold"], kids, offset + 40)
    rules = tuple(_rule(row, kids, devices, where) for where, row in rows["rule"])
    if set(devices) != {device for rule in rules for device in rule.devices}:
        raise TrustError("a device that no rule names", offset=offset)
    return Policy(
        head["name"],
        head["version"],
        tuple(keys),
        root,
        rules,
        frozenset(revoked),
        head["not_before"],
        head["not_after"],
    )


def _text(text: str, offset: int) -> None:
    """A device looks no further than ASCII."""
    if not (text.isascii() and text.isprintable()):
        raise TrustError("a name", offset=offset, expected="ASCII that can be printed", found=repr(text))


def _key(row: dict[str, Any], offset: int) -> Key:
    if row["kind"] not in list(KeyKind):
        known = " or ".join(f"{kind} ({algorithm.title})" for algorithm, kind in KINDS.items())
        raise TrustError("kind of a key", offset=offset + KID_BYTES, expected=known, found=row["kind"])
    kind = KeyKind(row["kind"])
    raw, rest = row["key"][: KEY_BYTES[kind]], row["key"][KEY_BYTES[kind] :]
    if (raw[0] != 4 and kind is not KeyKind.ED25519) or any(rest):
        raise TrustError(
            f"a key of {len(raw)} bytes",
            offset=offset + 24,
            expected="04, x, y, of a hybrid key a hash; of Ed25519 32 bytes; then zeros",
            found=row["key"].hex(),
        )
    key = Key(raw, kind)
    if row["kid"] != key.kid:
        raise TrustError(
            f"id of a key ({key.title})",
            offset=offset,
            expected=f"{key.kid.hex()}",
            found=row["kid"].hex(),
        )
    return key


def _role(mask: int, threshold: int, kids: Sequence[bytes], offset: int) -> Role:
    if mask >> len(kids) or not 1 <= threshold <= mask.bit_count():
        found = f"{threshold} of {mask.bit_count()}, bits {mask:#x}"
        raise TrustError("keys and threshold", offset=offset, expected="1 or more of its keys", found=found)
    return Role(_members(mask, kids), threshold)


def _rule(row: dict[str, Any], kids: Sequence[bytes], devices: Sequence[bytes], offset: int) -> Rule:
    if row["flags"] & ~_FLAGS:
        raise TrustError(
            "flags of a rule", offset=offset + 72, expected=f"of {_FLAGS:#x}", found=f"{row['flags']:#x}"
        )
    prefix = bool(row["flags"] & TRUST_PREFIX)
    if not row["name"] and not prefix:
        raise TrustError("name of a rule", offset=offset, expected="one", found="none")
    for name in ("name", "platform"):
        _text(row[name], offset)
    if row["devices"] >> len(devices):
        raise TrustError(
            "devices of a rule", offset=offset + 84, expected="the trust policy's", found=row["devices"]
        )
    return Rule(
        row["name"],
        _role(row["keys"], row["threshold"], kids, offset + 64),
        prefix,
        row["gpu"],
        row["min_security_version"],
        _members(row["devices"], devices),
        row["carveout_bytes"],
        row["time_budget_us"],
        row["platform"],
        bool(row["flags"] & TRUST_SIGNED_WEIGHTS),
    )


Anchor = PublicKey | Policy  # what a device, or whoever verifies, trusts to begin with


def describe(anchor: Anchor) -> str:
    """What is trusted, in a few words."""
    if isinstance(anchor, Policy):
        return f"policy {anchor.name} version {anchor.version} ({anchor.kid.hex()})"
    return f"{anchor.algorithm.title} {anchor.kid.hex()}"
