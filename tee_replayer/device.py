"""What a device was made for: a constant in its firmware, which any image can be searched for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from construct import Bytes, Const, Int32ul, Int64ul, Struct
from cryptography.hazmat.primitives.asymmetric import ec

from signing.keys import KID_BYTES, PublicKey
from trace_format.errors import TraceError

MAGIC = b"GRDEVICE"
PLATFORM_BYTES = 16
POINT_BYTES = 65
# struct gr_device of `declaration`
_DEVICE = Struct(
    "magic" / Const(MAGIC),
    "profile_id" / Int64ul,
    "platform" / Bytes(PLATFORM_BYTES),
    "key_id" / Bytes(KID_BYTES),
    "min_security_version" / Int32ul,
    "key" / Bytes(POINT_BYTES),
    "reserved" / Const(bytes(3)),
)


class DeviceError(TraceError):
    """A constant that starts as `struct gr_device` does and contradicts itself."""


@dataclass(frozen=True)
class Device:
    """What a device was made for.

    Attributes:
        platform: board or environment.
        profile_id: hash of the GPU's profile.
        min_security_version: older traces are refused.
        key: whose traces it accepts; an ES256 key.
    """

    platform: str
    profile_id: int
    min_security_version: int
    key: PublicKey

    @property
    def encoded(self) -> bytes:
        """The constant as it lies in a firmware."""
        values = {
            "profile_id": self.profile_id,
            "platform": self.platform.encode("ascii").ljust(PLATFORM_BYTES, b"\0"),
            "key_id": self.key.kid,
            "min_security_version": self.min_security_version,
            "key": self.key.raw,
        }
        return bytes(_DEVICE.build(values))

    def definition(self) -> str:
        """The constant in C, where `struct gr_device` is declared."""
        key_id, key = (", ".join(f"{byte:#04x}" for byte in part) for part in (self.key.kid, self.key.raw))
        magic = ", ".join(f"'{chr(byte)}'" for byte in MAGIC)
        return (
            "/* clang-format off */\n"
            "const struct gr_device gr_device = {\n"
            f"    .magic = {{{magic}}},\n"
            f"    .profile_id = UINT64_C({self.profile_id:#018x}),\n"
            f'    .platform = "{self.platform}",\n'
            "    .min_security_version = GR_MIN_SECURITY_VERSION,\n"
            f"    .key_id = {{{key_id}}},\n"
            f"    .key = {{{key}}},\n"
            "};\n"
            "/* clang-format on */\n"
        )

    def declaration(self) -> str:
        """`struct gr_device` in C, and the policy that follows from it."""
        return DECLARATION.replace("@VERSION@", str(self.min_security_version))


# The version is read through a volatile pointer: what an image says is what the code compares with, whatever the
# compiler makes of constants.
DECLARATION = f"""\
#define GR_MIN_SECURITY_VERSION @VERSION@u

/* What the device was made for. 'gramophone flash --check' finds it in an image by its magic. */
struct gr_device {{
    uint8_t magic[{len(MAGIC)}];
    uint64_t profile_id;
    char platform[{PLATFORM_BYTES}]; /* filled up with NUL */
    uint8_t key_id[{KID_BYTES}];
    uint32_t min_security_version;
    uint8_t key[{POINT_BYTES}];
    uint8_t reserved[3];
}};
_Static_assert(sizeof(struct gr_device) == {_DEVICE.sizeof()}, "no padding");
extern const struct gr_device gr_device;

static inline struct gr_policy gr_device_policy(void)
{{
    const volatile uint32_t *const version = &gr_device.min_security_version;
    return (struct gr_policy){{gr_device.key, gr_device.key_id, *version}};
}}
"""


def find(data: bytes) -> Iterator[tuple[int, Device]]:
    """All devices that an image holds, with their offsets.

    Raises:
        DeviceError: behind the magic is what no build writes: the key's id is not that of the key, the point is
            not on the curve, or reserved bytes are not zero; with the offset of the magic.
    """
    at = data.find(MAGIC)
    while at >= 0:
        yield at, _parse(data, at)
        at = data.find(MAGIC, at + 1)


def _parse(data: bytes, at: int) -> Device:
    stored = data[at : at + _DEVICE.sizeof()]
    if len(stored) < _DEVICE.sizeof():
        raise DeviceError(
            "the device's constant", offset=at, expected=f"{_DEVICE.sizeof()} bytes", found=len(stored)
        )
    values = Struct(*_DEVICE.subcons[:-1]).parse(stored)  # what is reserved is judged with the whole, below
    try:
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), values.key)
    except ValueError:
        raise DeviceError("the device's key is not a point of P-256", offset=at) from None
    device = Device(
        values.platform.rstrip(b"\0").decode("ascii", "replace"),
        values.profile_id,
        values.min_security_version,
        PublicKey(point),
    )
    if values.key_id != device.key.kid:
        expected, found = device.key.kid.hex(), values.key_id.hex()
        raise DeviceError("id of the device's key", offset=at, expected=expected, found=found)
    if not device.platform.isprintable() or not device.platform.isascii() or device.encoded != stored:
        raise DeviceError("the device's platform or reserved bytes are not what a build writes", offset=at)
    return device
