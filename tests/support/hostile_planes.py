# SPDX-License-Identifier: BSD-2-Clause
"""Hostile byte planes: sections that do not decode, and a device that has no decoder of them."""

from __future__ import annotations

import dataclasses

from tests.support import planes_samples as samples
from tests.support import replayer_samples as s
from tests.support.hostile_file import CHUNKS, IMAGE, MANIFEST, in_entry, optional, packed_image
from tests.support.hostile_rows import Hostile, Unseen, good, resectioned, rows
from tests.support.replayer_samples import Parts
from trace_format import errors, layout, planes
from trace_format.schema import Codec, SectionType

ALL = (Codec.PLANES,)
ACTIONS, SLOTS = SectionType.ACTIONS, SectionType.SLOTS


def _linking(found: tuple[Hostile, ...]) -> tuple[Hostile, ...]:
    """For devices that have the codec."""
    return tuple(dataclasses.replace(row, codecs=ALL) for row in found)


def image(stored: bytes, raw_bytes: int) -> Parts:
    """A trace whose image is one section of planes."""
    return packed_image(Codec.PLANES, stored, raw_bytes)


def everything() -> Parts:
    """A trace whose slots, actions and image are planes."""

    def change(body: list[layout.Part]) -> None:
        for index, part in enumerate(body[:2]):
            body[index] = layout.Part(part.type, planes.encode(part.decode()), 0, Codec.PLANES, part.raw_bytes)

    slots = good().slot_bytes()
    return resectioned(good(), change, slots=layout.Part(SLOTS, planes.encode(slots), 0, Codec.PLANES, len(slots)))


ENCODED = planes.encode(s.IMAGE)
ROWS = _linking(
    rows(
        [
            *(
                (f"planes: {name}", lambda _, block=block: image(*block), "CODEC", errors.CodecError)
                for name, block in samples.MALFORMED.items()
            ),
            (
                "planes: a section that is cut",
                lambda _: image(ENCODED[:-1], len(s.IMAGE)),
                "CODEC",
                errors.CodecError,
            ),
            ("a manifest of planes", in_entry(MANIFEST, codec=2), "SECTIONS", errors.SectionError),
            ("hashes of planes", in_entry(CHUNKS, codec=2), "SECTIONS", errors.SectionError),
            ("actions that are no planes", in_entry(ACTIONS, codec=2), "CODEC", errors.CodecError),
            ("slots that are no planes", in_entry(SLOTS, codec=2), "CODEC", errors.CodecError),
            (
                "an image of planes of more than 4 GiB",
                in_entry(IMAGE, raw_bytes=(1 << 32) + 1, codec=2),
                "SECTIONS",
                errors.SectionRangeError,
            ),
        ]
    )
) + rows(
    [
        (
            "an image of planes, on a device without them",
            lambda _: image(ENCODED, len(s.IMAGE)),
            "SECTIONS",
            Unseen("the host has all codecs"),
        ),
        (
            "an optional section of planes, on a device without them",
            optional(samples.GOOD, codec=2, raw_bytes=len(samples.RAW)),
            "SECTIONS",
            Unseen("the host has all codecs"),
        ),
    ]
)
# What only a device sees: which codecs it has.
ONLY_A_DEVICE = {row.name for row in ROWS if isinstance(row.host, Unseen)}
# What the rows start from.
GOOD = _linking(
    rows(
        [
            ("good: an image of planes", lambda _: image(ENCODED, len(s.IMAGE)), "OK", Unseen("nothing is wrong")),
            ("good: planes everywhere", lambda _: everything(), "OK", Unseen("nothing is wrong")),
            (
                "good: an optional section of planes",
                optional(samples.GOOD, codec=2, raw_bytes=len(samples.RAW)),
                "OK",
                Unseen("nothing is wrong"),
            ),
        ]
    )
)
