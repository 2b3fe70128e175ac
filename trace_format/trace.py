# SPDX-License-Identifier: BSD-2-Clause
"""A trace in memory, and its bytes.

`Trace.parse` accepts exactly what docs/FORMAT.md allows and `Trace.build` writes it; a raw recording and an
optimised trace are the same thing with another flag.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trace_format import assembly, codec, layout, limits, operators, packing, profile, slots, streamed
from trace_format.actions import ACTION_DTYPE, Actions, Columns, Op, Type
from trace_format.errors import (
    EncryptedError,
    ManifestError,
    OtherPolicyError,
    SectionError,
    SlotError,
    listed,
)
from trace_format.files import read_file
from trace_format.network import Network
from trace_format.networks import Limits as NetworkLimits
from trace_format.networks import check_networks, packed_networks, parsed_networks
from trace_format.schema import (
    HEADER_FLAG_JOINT,
    HEADER_FLAG_RAW,
    HEADER_FLAG_STREAMED,
    MAX_CARVEOUT_BYTES,
    MAX_TIME_BUDGET_US,
    PAGE_BYTES,
    SECTION_FLAG_OPTIONAL,
    SectionType,
)
from trace_format.slots import Slot
from trace_format.streamed import Limits as PieceLimits
from trace_format.streamed import Piece
from trace_format.validate import check_actions, job_count


@dataclass
class Trace:
    """Everything a trace says.

    `actions` is an array of ACTION_DTYPE; `image` the bytes that lie at the start of the carve-out; `meta` the
    manifest's own fields (name, security_version, texts, budgets); what follows from the rest is filled in by
    `build`. `notes` is free JSON for people (provenance, passes applied); the device passes over it. `networks`:
    of a joint trace, whose actions, slots and pages are whose; of others, empty. `streamed`: memory that is read
    while jobs run; of traces that are loaded at once, empty.
    """

    gpu: str
    actions: Actions
    image: codec.Buffer
    carveout_bytes: int
    va_bytes: int
    slots: list[Slot] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    raw: bool = False
    networks: list[Network] = field(default_factory=list)
    streamed: list[Piece] = field(default_factory=list)

    META_DEFAULTS: ClassVar[dict[str, Any]] = {
        "name": "",
        "source_hash": bytes(32),
        "security_version": 0,
        "revision_min": 0,
        "revision_max": 0xFFFFFFFF,
        "core_mask": 1,
        "time_budget_us": 60_000_000,
        "retry_limit": 2,
        "recorder": "",
        "kernel": "",
        "driver": "",
        "framework": "",
    }

    @property
    def profile(self) -> profile.Profile:
        """Profile of the GPU that the trace is for."""
        return profile.load(self.gpu)

    @property
    def jobs(self) -> int:
        """Number of jobs in one replay."""
        return job_count(self.actions)

    @property
    def trace_id(self) -> bytes:
        """Identity: first 16 bytes of the SHA-256 of actions, image and pieces."""
        digest = hashlib.sha256(self.actions.tobytes())
        digest.update(self.image)
        for piece in self.streamed:
            digest.update(piece.data)
        return digest.digest()[:16]

    def slot(self, name: str) -> Slot:
        """The slot called `name`; SlotError naming those that exist."""
        for slot in self.slots:
            if slot.name == name:
                return slot
        raise SlotError(f"no slot {name!r}; there are: {listed(s.name for s in self.slots)}")

    def with_(self, **changes: Any) -> Trace:
        """A copy with some attributes replaced."""
        return replace(self, **changes)

    def check(self, where: str = "") -> None:
        """Raise the error of the first rule that the contents break."""
        gpu = self.profile
        if self.carveout_bytes % PAGE_BYTES or not 0 < self.carveout_bytes <= MAX_CARVEOUT_BYTES:
            raise ManifestError(
                f"{where}carveout_bytes is out of range",
                expected="a multiple of 4096, at most 4 GiB",
                found=self.carveout_bytes,
            )
        if len(self.image) > self.carveout_bytes:
            raise ManifestError(
                f"{where}image is larger than the carve-out",
                expected=self.carveout_bytes,
                found=len(self.image),
            )
        if self.va_bytes % PAGE_BYTES or not 0 < self.va_bytes <= 1 << gpu.mmu["va_bits"]:
            raise ManifestError(
                f"{where}va_bytes is out of range",
                expected=f"a multiple of 4096, at most 2^{gpu.mmu['va_bits']}",
                found=self.va_bytes,
            )
        budget = self.meta.get("time_budget_us", self.META_DEFAULTS["time_budget_us"])
        if budget > MAX_TIME_BUDGET_US:
            raise ManifestError(
                f"{where}time_budget_us is out of range", expected=f"at most {MAX_TIME_BUDGET_US}", found=budget
            )
        slots.check_slots(self.slots, self.va_bytes, gpu.address_spaces, where)
        streamed.check(self.streamed, PieceLimits(len(self.image), self.carveout_bytes, self.jobs), where)
        check_actions(
            self.actions,
            image_bytes=len(self.image),
            carveout_bytes=self.carveout_bytes,
            va_bytes=self.va_bytes,
            slot_count=len(self.slots),
            window_bytes=gpu.window_bytes,
            lines=len(gpu.interrupts),
            address_spaces=gpu.address_spaces,
            where=where,
            joint=bool(self.networks),
            read_only_pages=streamed.read_only_end(self.streamed, len(self.image)),
        )
        check_networks(self.networks, self._network_limits(), where)
        streamed.check_owners(self.streamed, self.networks, where)
        operators.check(self.actions, self.slots, where)

    def _network_limits(self) -> NetworkLimits:
        manifest = self.META_DEFAULTS | self.meta
        return NetworkLimits(
            self.actions,
            len(self.slots),
            streamed.read_only_end(self.streamed, len(self.image)),
            self.carveout_bytes,
            manifest["retry_limit"],
            manifest["time_budget_us"],
        )

    @property
    def header_flags(self) -> int:
        """Flags of the header of its file."""
        flags = {HEADER_FLAG_RAW: self.raw, HEADER_FLAG_JOINT: self.networks, HEADER_FLAG_STREAMED: self.streamed}
        return sum(flag for flag, is_set in flags.items() if is_set)

    def build(self, *, compress: bool = True, chunk_bytes: int | None = None) -> bytes:
        """The trace's bytes. The same trace always gives the same bytes.

        Args: as `pieces`.
        """
        return b"".join(self.pieces(compress=compress, chunk_bytes=chunk_bytes))

    def pieces(self, *, compress: bool = True, chunk_bytes: int | None = None) -> list[codec.Buffer]:
        """The trace's bytes in pieces, the first of which is its head; most others are the image's own.

        Args:
            compress: pack what packs well.
            chunk_bytes: size of the body's chunks; None: as `assembly.chunk_bytes_for`.
        """
        self.check()
        head = [
            layout.Part(SectionType.MANIFEST, self.manifest_bytes()),
            layout.Part.encoded(SectionType.SLOTS, self.slot_bytes(), compress),
        ]
        body = [layout.Part.encoded(SectionType.ACTIONS, self.actions.tobytes(), compress)]
        for piece, packs in codec.image_pieces(self.image, compress):
            body.append(layout.Part.encoded(SectionType.IMAGE, piece, packs))
        if self.streamed:
            rows, stream = streamed.packed(self.streamed, compress)
            head.append(layout.Part(SectionType.PIECES, rows))
            body.append(layout.Part(SectionType.STREAM, b"".join(stream)))
        if self.networks:
            head.append(layout.Part(SectionType.NETWORKS, self.network_bytes()))
        if notes := slots.notes_with_splits(self.notes, self.slots):
            text = notes_bytes(notes)
            body.append(layout.Part.encoded(SectionType.NOTES, text, compress, SECTION_FLAG_OPTIONAL))
        chunk_bytes = chunk_bytes or assembly.chunk_bytes_for(head, body)
        return assembly.pieces(head, body, chunk_bytes, self.header_flags)

    def manifest_bytes(self) -> bytes:
        """Content of the manifest's section."""
        gpu = self.profile
        manifest = (self.META_DEFAULTS | self.meta) | {
            "trace_id": self.trace_id,
            "gpu": int(gpu.gpu),
            "gpu_id": gpu.identity_value,
            "gpu_id_mask": gpu.identity_mask,
            "profile_id": gpu.profile_id,
            "carveout_bytes": self.carveout_bytes,
            "image_bytes": len(self.image),
            "va_bytes": self.va_bytes,
            "action_count": len(self.actions),
            "job_count": self.jobs,
            "slot_count": len(self.slots),
        }
        return packing.pack("manifest", manifest)

    def slot_bytes(self) -> bytes:
        """Content of the slots' section."""
        return b"".join(slots.packed(slot) for slot in self.slots)

    def network_bytes(self) -> bytes:
        """Content of the networks' section."""
        return packed_networks(self.networks, streamed.read_only_end(self.streamed, len(self.image)))

    @classmethod
    def parse(cls, data: codec.Buffer, file: str = "") -> Trace:
        """Read a trace; every byte is checked.

        Args:
            data: the whole file.
            file: its name, for errors.

        Raises:
            TraceError: the subclass and its offset say what is wrong.
        """
        with layout.naming(file):
            return cls.of_sections(data, *layout.disassemble(data))

    @classmethod
    def of_sections(cls, data: codec.Buffer, header: Mapping[str, Any], sections: layout.Parts) -> Trace:
        """As `parse`, for a file that `layout.disassemble` has taken apart."""
        manifest_part = sections.one(SectionType.MANIFEST)
        manifest = packing.unpack("manifest", bytes(manifest_part.stored), manifest_part.offset)
        sections.check_chunks(data, header)
        rows = _slots(sections.one(SectionType.SLOTS), manifest["slot_count"])
        packed_actions = sections.one(SectionType.ACTIONS)
        if packed_actions.raw_bytes != manifest["action_count"] * ACTION_DTYPE.itemsize:
            raise SectionError(
                "size of the actions section",
                offset=packed_actions.offset,
                expected=manifest["action_count"] * ACTION_DTYPE.itemsize,
                found=packed_actions.raw_bytes,
            )
        limits.check("actions", manifest["action_count"], limits.ACTIONS)
        image_parts = sections.all(SectionType.IMAGE)
        total = sum(part.raw_bytes for part in image_parts)
        if total != manifest["image_bytes"]:
            raise ManifestError("size of the image", expected=manifest["image_bytes"], found=total)
        if total > manifest["carveout_bytes"]:
            raise ManifestError(
                "image is larger than the carve-out", expected=manifest["carveout_bytes"], found=total
            )
        if layout.is_encrypted(header):
            raise EncryptedError("the body is encrypted", offset=header["head_bytes"])
        sections.check_content(len(data))  # before actions, image, pieces and notes are decoded
        pieces = _pieces(sections)
        joint = sections.all(SectionType.NETWORKS)
        fixed = streamed.read_only_end(pieces, total)
        rows_of_networks = parsed_networks(bytes(joint[0].stored), fixed, joint[0].offset) if joint else []
        gpu = profile.for_gpu(manifest["gpu"])
        if manifest["profile_id"] != gpu.profile_id:
            raise OtherPolicyError(
                f"made for another register policy of {gpu.name}",
                expected=f"{gpu.profile_id:#018x}",
                found=f"{manifest['profile_id']:#018x}",
            )
        notes_parts = sections.all(SectionType.NOTES)
        notes = _notes(notes_parts[0]) if notes_parts else {}
        trace = cls(
            gpu=gpu.name,
            actions=np.frombuffer(packed_actions.decode(), dtype=ACTION_DTYPE),
            image=b"".join(part.view() for part in image_parts),
            carveout_bytes=manifest["carveout_bytes"],
            va_bytes=manifest["va_bytes"],
            slots=slots.with_splits(rows, notes.pop(slots.SPLITS, {})),
            meta={key: manifest[key] for key in cls.META_DEFAULTS},
            notes=notes,
            raw=bool(header["flags"] & HEADER_FLAG_RAW),
            networks=rows_of_networks,
            streamed=pieces,
        )
        trace.check()
        trace._check_manifest(manifest)
        return trace

    def _check_manifest(self, manifest: Mapping[str, Any]) -> None:
        """LimitError, ManifestError: what a parsed manifest says of pages, jobs, identity is not so."""
        columns = Columns(self.actions)
        mapped = int(columns.of(Type.PAGES)[columns.is_op(Op.MAP_GPU_MEM)].sum())
        limits.check_pages(mapped, (slot.span for slot in self.slots), PAGE_BYTES)
        if manifest["job_count"] != self.jobs:
            raise ManifestError("number of jobs", expected=self.jobs, found=manifest["job_count"])
        if manifest["trace_id"] != self.trace_id:
            raise ManifestError("trace_id", expected=self.trace_id.hex(), found=manifest["trace_id"].hex())
        gpu = self.profile
        if manifest["gpu_id"] != gpu.identity_value or manifest["gpu_id_mask"] != gpu.identity_mask:
            raise ManifestError(
                "identity register", expected=hex(gpu.identity_value), found=hex(manifest["gpu_id"])
            )

    @classmethod
    def read(cls, path: str | Path) -> Trace:
        """Read a trace file."""
        return cls.parse(read_file(path), str(path))


def notes_bytes(notes: dict[str, Any]) -> bytes:
    """Content of the notes' section."""
    return json.dumps(notes, sort_keys=True, separators=(",", ":")).encode()


def _pieces(sections: layout.Parts) -> list[Piece]:
    """The pieces of a streamed trace; of others, none."""
    if not (rows := sections.all(SectionType.PIECES)):
        return []
    stream = sections.one(SectionType.STREAM)
    return streamed.parsed(bytes(rows[0].stored), stream.stored, rows[0].offset, stream.offset)


def _slots(part: layout.Part, count: int) -> list[Slot]:
    """The rows of the slots section, of which the manifest says the number."""
    size = packing.size_of("slot")
    if part.raw_bytes != count * size:
        raise SectionError(
            "size of the slots section", offset=part.offset, expected=count * size, found=part.raw_bytes
        )
    slots.check_count(count)
    data = part.decode()
    return [
        slots.parsed(data[i : i + size], part.offset + (0 if part.codec else i)) for i in range(0, len(data), size)
    ]


def _notes(part: layout.Part) -> dict[str, Any]:
    limits.check("size of the notes in bytes", part.raw_bytes, limits.NOTES_BYTES, offset=part.offset)
    try:
        notes = json.loads(part.decode())
    except (ValueError, RecursionError) as error:
        raise SectionError(f"notes are not JSON ({error})", offset=part.offset) from None
    if not isinstance(notes, dict):
        raise SectionError("notes are not a JSON object", offset=part.offset)
    return notes
