# SPDX-License-Identifier: BSD-2-Clause
"""Hostile manifests: identity, versions, policy, counts, memory, time."""

from __future__ import annotations

from tests.support import replayer_samples as s
from tests.support.hostile_rows import (
    EVERYTHING,
    HUGE,
    MIN_SECURITY_VERSIONS,
    V3D,
    Edit,
    Unseen,
    field,
    rows,
)
from tests.support.replayer_samples import PAGE, Parts
from trace_format import errors
from trace_format.schema import SectionType

NAMES_ONLY = Unseen("it only names something")
OF_THE_DEVICE = Unseen("only the device knows what it has")
RESERVED_AT, RESERVED_BYTES = 424, 88  # of the manifest


def text(at: int, data: bytes) -> Edit:
    """Other bytes in the manifest; the trace's id is not made to fit."""

    def edit(parts: Parts) -> bytes:
        start = parts.section(SectionType.MANIFEST)[1] + at
        parts.data[start : start + len(data)] = data
        return parts.signed()

    return edit


BAD = errors.ManifestError
ROWS = rows(
    [
        field("another number of jobs", "job_count", 2, "MANIFEST", BAD),
        field("no jobs", "job_count", 0, "MANIFEST", BAD),
        field("another number of actions", "action_count", 2, "MANIFEST", errors.SectionError),
        field("very many actions", "action_count", HUGE, "MANIFEST", errors.SectionError),
        field("another number of slots", "slot_count", 3, "MANIFEST", errors.SectionError),
        field("a number of no slots", "slot_count", 0, "MANIFEST", errors.SectionError),
        field("another size of the image", "image_bytes", len(s.IMAGE) - 8, "MANIFEST", BAD),
        field("an image beyond all memory", "image_bytes", EVERYTHING, "MANIFEST", BAD),
        ("reserved bytes of the manifest", text(RESERVED_AT, b"\1"), "MANIFEST", errors.ReservedError),
        (
            "the manifest's last reserved byte",
            text(RESERVED_AT + RESERVED_BYTES - 1, b"\1"),
            "MANIFEST",
            errors.ReservedError,
        ),
        field("more than ten minutes", "time_budget_us", 600_000_001, "MANIFEST", BAD),
        field("2^63 microseconds", "time_budget_us", 1 << 63, "MANIFEST", BAD),
        field("all the time there is", "time_budget_us", EVERYTHING, "MANIFEST", BAD),
        field("a GPU that is not known", "gpu", 99, "TARGET", errors.ProfileError),
        field("no GPU", "gpu", 0, "TARGET", errors.ProfileError),
        field("another GPU", "gpu", 2, "TARGET", errors.OtherPolicyError),
        field("another policy", "profile_id", 1, "PROFILE", errors.OtherPolicyError),
        field(
            "the policy but for a bit",
            "profile_id",
            s.GPU.profile_id ^ 1 << 63,
            "PROFILE",
            errors.OtherPolicyError,
        ),
        field("another identity", "gpu_id", 0x33, "MANIFEST", BAD),
        field("another mask of the identity", "gpu_id_mask", 0, "MANIFEST", BAD),
        field("a later revision", "revision_min", 15, "IDENTITY", OF_THE_DEVICE),
        field("an earlier revision", "revision_max", 13, "IDENTITY", OF_THE_DEVICE),
        field("more cores", "core_mask", 3, "IDENTITY", OF_THE_DEVICE),
        field("a core far away", "core_mask", 1 << 63, "IDENTITY", OF_THE_DEVICE),
        field("an older version", "security_version", MIN_SECURITY_VERSIONS[V3D] - 1, "ROLLBACK", OF_THE_DEVICE),
        field("version zero", "security_version", 0, "ROLLBACK", OF_THE_DEVICE),
        field("no carve-out", "carveout_bytes", 0, "MANIFEST", BAD),
        field("carve-out of half a page", "carveout_bytes", 16 * PAGE + 8, "MANIFEST", BAD),
        field("carve-out beyond 4 GiB", "carveout_bytes", (1 << 32) + PAGE, "MANIFEST", BAD),
        field("carve-out beyond all memory", "carveout_bytes", (1 << 64) - PAGE, "MANIFEST", BAD),
        field("carve-out larger than the memory", "carveout_bytes", 1 << 32, "MEMORY", OF_THE_DEVICE),
        (
            "carve-out smaller than the image",
            lambda p: p.entry(SectionType.IMAGE, "raw_bytes", 1 << 32).entry(SectionType.IMAGE, "codec", 1),
            "MANIFEST",
            BAD,
        ),
        field("no virtual pages", "va_bytes", 0, "MANIFEST", BAD),
        field("half a virtual page", "va_bytes", 32 * PAGE + 8, "MANIFEST", BAD),
        field("virtual pages beyond the MMU", "va_bytes", (1 << 32) + PAGE, "MANIFEST", BAD),
        field("virtual pages beyond all addresses", "va_bytes", (1 << 64) - PAGE, "MANIFEST", BAD),
        ("another id", text(64, bytes(16)), NAMES_ONLY, BAD),
        ("a name that is no text", text(0, b"\xff\xfe"), NAMES_ONLY, errors.ReservedError),
        ("a name that goes on after its end", text(0, b"a\0b"), NAMES_ONLY, errors.ReservedError),
        ("a framework that is no text", text(360, b"\xc3\x28"), NAMES_ONLY, errors.ReservedError),
    ]
)
