# SPDX-License-Identifier: BSD-2-Clause
"""What a device was made for: a constant in its firmware, which can be found in any image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from signing.errors import TrustError
from signing.keys import PublicKey
from signing.trust import Anchor, Policy
from tee_replayer.generator import amalgamate
from trace_format import packing
from trace_format.emit import GENERATED
from trace_format.errors import ReservedError, TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.schema.firmware import DEVICE_MAGIC as MAGIC
from trace_format.schema.trust import TRUST_MAGIC

_NO_KEY = bytes(65)  # a trust policy says who signs
SIZE = packing.size_of("device")
_ROW = packing.Row("device")


class DeviceError(TraceError):
    """A constant that starts as `struct gr_device` does and contradicts itself."""


@dataclass(frozen=True)
class Device:
    """What a device was made for.

    Attributes:
        platform: board or environment.
        profile_id: hash of the GPU's profile.
        min_security_version: older traces are refused.
        key: whose traces it accepts: an ES256 key, or a trust policy.
        carveout_bytes: secure memory for traces, a multiple of 4096; 0: it is not known. The C constant has what
            it is compiled with: GR_CARVEOUT_BYTES, less OP-TEE's staging area.
    """

    platform: str
    profile_id: int
    min_security_version: int
    key: Anchor
    carveout_bytes: int = 0

    @property
    def encoded(self) -> bytes:
        """The constant as it lies in a firmware."""
        values = {
            "profile_id": self.profile_id,
            "platform": self.platform,
            "key_id": self.key.kid,
            "min_security_version": self.min_security_version,
            "key": _NO_KEY if isinstance(self.key, Policy) else self.key.raw,
            "carveout_pages": (self.carveout_bytes // PAGE_BYTES).to_bytes(3, "little"),
        }
        return packing.pack("device", values)

    def definition(self) -> str:
        """The constant in C, where `struct gr_device` is declared."""
        has_policy = isinstance(self.key, Policy)
        key_id, raw = c_bytes(self.key.kid), c_bytes(self.key.raw)
        key = "0" if has_policy else raw
        again = _AGAIN_TRUST if has_policy else _AGAIN
        constant = f"_Alignas(8) const uint8_t gr_trust[] = {{{raw}}};\n" if has_policy else ""
        return (
            f"{_CARVEOUT}"
            "/* clang-format off */\n"
            f"{constant}"
            "const struct gr_device gr_device = {\n"
            "    .magic = GR_DEVICE_MAGIC,\n"
            f"    .profile_id = UINT64_C({self.profile_id:#018x}),\n"
            f'    .platform = "{self.platform}",\n'
            "    .min_security_version = GR_MIN_SECURITY_VERSION,\n"
            f"    .key_id = {{{key_id}}},\n"
            f"    .key = {{{key}}},\n"
            "    .carveout_pages = {GR_CARVEOUT_PAGES & 255, GR_CARVEOUT_PAGES >> 8 & 255,\n"
            "                       GR_CARVEOUT_PAGES >> 16 & 255},\n"
            "};\n"
            f"{again.replace('@RAW@', raw).replace('@PLATFORM@', self.platform)}"
        )

    def declaration(self) -> str:
        """`struct gr_device` in C, and the policy that follows from it."""
        return (
            f"#define GR_MIN_SECURITY_VERSION {self.min_security_version}u\n\n"
            f"{amalgamate.part(GENERATED / 'gramophone_device.h')}\n"
            f"{_DECLARATION_TRUST if isinstance(self.key, Policy) else _DECLARATION}"
        )


_CARVEOUT = """\
#ifdef GR_CARVEOUT_BYTES
#ifdef GR_STAGING_BYTES /* OP-TEE */
#define GR_CARVEOUT_PAGES (((uint64_t)GR_CARVEOUT_BYTES - GR_STAGING_BYTES) / 4096)
#else
#define GR_CARVEOUT_PAGES ((uint64_t)GR_CARVEOUT_BYTES / 4096)
#endif
#else
#define GR_CARVEOUT_PAGES UINT64_C(0)
#endif
_Static_assert(GR_CARVEOUT_PAGES >> 24 == 0, "size of the carve-out");
"""

_AGAIN = """
/* What the policy says, once more: at another place, and in the code. */
GR_API uint32_t gr_port_lowest_inverted(void)
{
    return ~GR_MIN_SECURITY_VERSION;
}

GR_API const uint8_t *gr_port_key_again(void)
{
    static const uint8_t again[] = {@RAW@};
    /* clang-format on */
    return again;
}
"""

_AGAIN_TRUST = """
/* What the policy says, once more: at another place, and in the code. */
GR_API uint32_t gr_port_lowest_inverted(void)
{
    return ~GR_MIN_SECURITY_VERSION;
}

/* What the device knows besides its own policy. */
static void facts(struct gr_policy *policy)
{
    static const uint8_t device_id[16] = GR_DEVICE_ID;
    policy->device_id = device_id;
#ifdef GRAMOPHONE_STORE
    policy->least_trust_version = gr_store_least_policy();
#else
    policy->least_trust_version = 0; /* nothing outlives a reboot */
#endif
#ifdef GRAMOPHONE_CLOCK
    const uint64_t now_s = gr_port_utc_s();
    policy->now_s = now_s ? now_s : GR_NO_TIME;
#else
    policy->now_s = 0; /* there is no clock */
#endif
}

GR_API struct gr_policy gr_device_policy(void)
{
    const volatile uint32_t *const version = &gr_device.min_security_version;
    struct gr_policy policy = {.trust = gr_trust,
                               .platform = (const uint8_t *)gr_device.platform,
                               .min_security_version = *version};
    facts(&policy);
    return policy;
}

GR_API void gr_port_policy_again(struct gr_policy *policy)
{
    static const _Alignas(8) uint8_t again[] = {@RAW@};
    /* clang-format on */
    static const uint8_t platform[16] = "@PLATFORM@";
    policy->trust = again;
    policy->platform = platform;
    facts(policy);
}
"""

# The version is read through a volatile pointer: what an image says is what the code compares with, whatever the
# compiler does with constants.
_DECLARATION = """\
/* 'gramophone flash --check' finds it in an image by its magic. */
extern const struct gr_device gr_device;

static inline struct gr_policy gr_device_policy(void)
{
    const volatile uint32_t *const version = &gr_device.min_security_version;
    return (struct gr_policy){
        .key = gr_device.key, .key_id = gr_device.key_id, .min_security_version = *version};
}
"""


_DECLARATION_TRUST = """\
/* 'gramophone flash --check' finds it in an image by its magic, and by its own the trust policy. */
extern const struct gr_device gr_device;
extern const uint8_t gr_trust[];

GR_API struct gr_policy gr_device_policy(void);
"""


def c_bytes(data: bytes) -> str:
    """Bytes as the values of a C array, without the braces."""
    return ", ".join(f"{byte:#04x}" for byte in data)


def find(data: bytes) -> Iterator[tuple[int, Device]]:
    """All devices that an image holds, with their offsets.

    Raises:
        DeviceError: what follows the magic is not what a build writes: the key's id is not that of the key, the
            point is not on the curve, or reserved bytes are not zero; with the offset of the magic.
    """
    at = data.find(MAGIC)
    while at >= 0:
        yield at, _parse(data, at)
        at = data.find(MAGIC, at + 1)


def _parse(data: bytes, at: int) -> Device:
    stored = data[at : at + SIZE]
    if len(stored) < SIZE:
        raise DeviceError("the device's constant", offset=at, expected=f"{SIZE} bytes", found=len(stored))
    row = _ROW.unpack(stored)
    key = _policy(data, at, row.key_id) if row.key == _NO_KEY else _key(row.key, at)
    if row.key_id != key.kid:
        raise DeviceError("id of the device's key", offset=at, expected=key.kid.hex(), found=row.key_id.hex())
    try:
        platform = packing.unpack("device", stored, at)["platform"]
    except ReservedError:
        platform = "\0"
    if not platform.isprintable() or not platform.isascii():
        raise DeviceError("the device's platform is not what a build writes", offset=at)
    carveout = int.from_bytes(row.carveout_pages, "little") * PAGE_BYTES
    return Device(platform, row.profile_id, row.min_security_version, key, carveout)


def _key(raw: bytes, at: int) -> PublicKey:
    try:
        return PublicKey(ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw))
    except ValueError:
        raise DeviceError("the device's key is not a point of P-256", offset=at) from None


def _policy(data: bytes, at: int, kid: bytes) -> Policy:
    """The policy with this id, which lies elsewhere in the image."""
    start = data.find(TRUST_MAGIC)
    while start >= 0:
        size = int.from_bytes(data[start + 12 : start + 16], "little")
        try:
            found = Policy.decode(data[start : start + size])
        except TrustError:
            found = None
        if found and found.kid == kid:
            return found
        start = data.find(TRUST_MAGIC, start + 1)
    raise DeviceError("the device's trust policy", offset=at, expected=kid.hex(), found="none with this id")
