# SPDX-License-Identifier: BSD-2-Clause
"""Which encrypted traces a generated replayer can read: those for its board's secret, and those for its fleet."""

from __future__ import annotations

from dataclasses import dataclass

FLEET_KEY_BYTES = 32
HAS_ENCRYPTION = "GRAMOPHONE_ENCRYPTION"
HAS_SECRET = "GRAMOPHONE_SECRET"  # the port gives the board's secret


@dataclass(frozen=True)
class Decryption:
    """Options of a device.

    Attributes:
        wanted: it can read encrypted traces at all.
        fleet_key: private key of P-256 that is compiled in, 32 bytes, the most significant first; empty: none.
    """

    wanted: bool = False
    fleet_key: bytes = b""

    def __post_init__(self) -> None:
        if self.fleet_key and (not self.wanted or len(self.fleet_key) != FLEET_KEY_BYTES):
            raise ValueError("a fleet key is 32 bytes, of a device that decrypts")

    @property
    def words(self) -> str:
        """As the notice of a generated file says it; empty: none."""
        if not self.wanted:
            return ""
        return "decrypts, with a fleet key compiled in" if self.fleet_key else "decrypts"

    def definition(self, has_secret: bool) -> str:
        """Functions of the port in C that follow from it.

        Args:
            has_secret: the board's port gives a secret; without it there is none.
        """
        if not self.wanted:
            return ""
        text = "" if has_secret else _NO_SECRET
        if not self.fleet_key:
            return text + _NO_FLEET
        rows = ", ".join(f"{byte:#04x}" for byte in self.fleet_key)
        return text + _FLEET.replace("@KEY@", rows)


_NO_SECRET = """
/* The board has none. */
GR_API bool gr_port_secret(uint8_t secret[32])
{
    memset(secret, 0, 32);
    return false;
}
"""
_NO_FLEET = """
/* There is none. */
GR_API bool gr_port_fleet_key(uint8_t key[32])
{
    memset(key, 0, 32);
    return false;
}
"""
_FLEET = """
/* Whoever can read this firmware has it. */
GR_API bool gr_port_fleet_key(uint8_t key[32])
{
    /* clang-format off */
    static const uint8_t fleet[32] = {@KEY@};
    /* clang-format on */
    memcpy(key, fleet, sizeof fleet);
    return true;
}
"""
