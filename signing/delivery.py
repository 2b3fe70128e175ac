# SPDX-License-Identifier: BSD-2-Clause
"""A signed trace as it is handed to a device: its bytes, and what they say, each part read once.

Nothing is verified here: `signing.verify` does that for the host, and each device for itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from signing import encryption, envelope
from signing.envelope import SignedTrace
from trace_format import layout, packing
from trace_format.errors import EncryptedError, TraceError
from trace_format.schema import SectionType
from trace_format.trace import Trace

T = TypeVar("T")


@dataclass(frozen=True)
class Delivery:
    """A signed trace, and what is in it.

    It is made of the bytes only, keeps a copy where they could change, and reads every part from that, when it is
    first asked for: so what is verified or shown on the host is always what is sent. Errors of the parts are kept,
    too. Their offsets count from the file's start.

    Attributes:
        data: the whole file.
    """

    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", bytes(self.data))

    def __len__(self) -> int:
        return len(self.data)

    @property
    def signed(self) -> SignedTrace:
        """Envelope and trace; TraceError as `signing.envelope.split`."""
        return _given(self._signed)

    @property
    def header(self) -> Mapping[str, Any]:
        """The trace's header; TraceError as `signed` and `trace_format.layout.read_header`."""
        return _given(self._header)

    @property
    def sections(self) -> layout.Parts:
        """The trace's sections; TraceError as `header` and `trace_format.layout.sections`."""
        return _given(self._sections)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest, even if the trace is damaged elsewhere; TraceError where it cannot be read."""
        part = self.sections.one(SectionType.MANIFEST)
        return packing.unpack("manifest", bytes(part.stored), part.offset)

    def parse(self) -> Trace:
        """What the trace says; TraceError as `sections` and `signing.encryption.parse`."""
        return _given(self._trace)

    def check(self) -> dict[str, Any]:
        """The manifest of a trace that is well formed as far as it can be read; TraceError as `parse`.

        An encrypted one is passed on without a key, too, with its signature and its chunks.
        """
        with contextlib.suppress(EncryptedError):
            self.parse()
        return self.manifest

    @property
    def trace(self) -> Trace | None:
        """What the trace says; None when it is damaged, or no key opens it: refusing it is the device's part."""
        return None if isinstance(self._trace, TraceError) else self._trace

    @cached_property
    def _signed(self) -> SignedTrace | TraceError:
        return _tried(lambda: envelope.split(self.data))

    @cached_property
    def _header(self) -> Mapping[str, Any] | TraceError:
        return _tried(lambda: MappingProxyType(self._inside(layout.read_header)))

    @cached_property
    def _sections(self) -> layout.Parts | TraceError:
        header = self._header
        if isinstance(header, TraceError):
            return header
        return _tried(lambda: self._inside(lambda trace: layout.sections(trace, header)))

    @cached_property
    def _trace(self) -> Trace | TraceError:
        sections = self._sections
        if isinstance(sections, TraceError):
            return sections
        if layout.is_encrypted(self.header):
            return _tried(lambda: self._inside(encryption.parse))
        return _tried(lambda: self._inside(lambda trace: Trace.of_sections(trace, self.header, sections)))

    def _inside(self, read: Callable[[memoryview], T]) -> T:
        """What a function reads from the trace; the offsets of its errors become those in the file."""
        signed = self.signed
        with envelope.shifted(signed.offset):
            return read(signed.trace)


def _tried(read: Callable[[], T]) -> T | TraceError:
    """What a function returns or raises, to be kept."""
    try:
        return read()
    except TraceError as error:
        return error.with_traceback(None)


def _given(found: T | TraceError) -> T:
    """What was kept: returned, or raised as an error of its own, since whoever lets it pass adds to it."""
    if isinstance(found, TraceError):
        raise found.again()
    return found
