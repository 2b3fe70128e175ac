# SPDX-License-Identifier: BSD-2-Clause
"""Recordings, traces and signed traces as objects: what `import gramophone` gives."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from numpy.typing import ArrayLike

from trace_format import layout, limits, profile
from trace_format.errors import GramophoneError, listed
from trace_format.files import read_file
from trace_format.schema import SIGNED_MAGIC, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace as Content

if TYPE_CHECKING:
    from host_tools.api.keys import SigningKey
    from host_tools.passes.pipeline import Step
    from signing.delivery import Delivery
    from signing.keys import PublicKey

AnyPath = str | os.PathLike[str]
F = TypeVar("F", bound="TraceFile")


class TraceFile:
    """A file of Gramophone's, in memory. It does not change.

    Attributes:
        data: the whole file.
        file: what messages call it.
    """

    def __init__(self, data: bytes, file: str = "") -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise GramophoneError(
                f"data: expected the bytes of a file, found {type(data).__name__}; gramophone.load reads a path"
            )
        self.data = bytes(data)
        self.file = file or f"the {self._kind}"

    _kind = "file"

    @cached_property
    def content(self) -> Content:
        """What it says: manifest, actions, memory, slots (`trace_format.trace.Trace`).

        Raises:
            TraceError: it is damaged, or encrypted for a key that is not at hand.
        """
        with layout.naming(self.file):
            is_encrypted = layout.is_encrypted(layout.read_header(self.data))
        if not is_encrypted:
            return Content.parse(self.data, self.file)
        from signing import encryption

        return encryption.parse(self.data, self.file)

    @property
    def name(self) -> str:
        """The trace's name."""
        return str(self.content.meta.get("name", ""))

    @property
    def gpu(self) -> str:
        """The GPU that it is for, such as "v3d42"."""
        return self.content.gpu

    @property
    def jobs(self) -> int:
        """GPU jobs of one replay."""
        return self.content.jobs

    @property
    def inputs(self) -> dict[str, Slot]:
        """Name -> input: `tensor_shape`, `numpy_dtype`, and `bound` if a replay may be given no value for it."""
        return self._slots(SlotKind.INPUT)

    @property
    def outputs(self) -> dict[str, Slot]:
        """Name -> output, as `inputs`."""
        return self._slots(SlotKind.OUTPUT)

    @property
    def parameters(self) -> dict[str, Slot]:
        """Name -> parameter (weights), as `inputs`."""
        return self._slots(SlotKind.PARAMETER)

    def _slots(self, kind: SlotKind) -> dict[str, Slot]:
        return {slot.name: slot for slot in self.content.slots if slot.kind == kind}

    def save(self, path: AnyPath) -> Self:
        """Write the file, whole or not at all; OSError: it cannot be written."""
        from host_tools.support.files import write_atomically

        write_atomically(Path(path), self.data)
        return self

    def __repr__(self) -> str:
        try:
            ends = ", ".join(
                f"{arrow} {listed(f'{s.name} {s.numpy_dtype} {list(s.tensor_shape)}' for s in slots.values())}"
                for arrow, slots in (("in", self.inputs), ("out", self.outputs))
            )
        except GramophoneError as error:
            return f"<{type(self).__name__}: {len(self.data)} bytes: {error}>"
        return f"<{type(self).__name__} {self.name}: {self.gpu}, {self.jobs} jobs, {ends}, {len(self.data)} bytes>"


class Recording(TraceFile):
    """A raw recording: all that the GPU stack did, for the device that it was made on."""

    _kind = "recording"

    def build(
        self,
        *,
        parameters: Mapping[str, ArrayLike | AnyPath] | None = None,
        states: Mapping[str, str] | None = None,
        open_slots: Collection[str] = (),
        first: Mapping[str, ArrayLike | AnyPath] | None = None,
        skip: Sequence[str] = (),
        keep_inputs: bool = False,
        observe: bool = False,
        trust_note: bool = False,
        timeout_margin: int | None = None,
        asked: Mapping[str, float] | None = None,
        gpu: str | None = None,
        name: str | None = None,
        security_version: int | None = None,
    ) -> Trace:
        """Build a trace worth signing, as `gramophone build` does.

        Args:
            parameters: slot -> value (weights), an array of the slot's shape and type or a .npy file; those that
                are left out stay parameters, of which each replay must be given a value unless they are bound.
            states: input -> output: what a replay leaves in the output is the next one's input.
            open_slots: slots of `states` that callers may set or read.
            first: first values of inputs of `states`, as `parameters`; default: the recorded ones.
            skip: names of passes to leave out.
            keep_inputs: keep recorded inputs, for replays that are given none.
            observe: run the jobs to see what memory they access, even if the recording says it.
            trust_note: do not replay what was built to check what the recording says that its jobs access.
            timeout_margin: a wait for a job ends after this many times the job's estimated worst time; None: as
                many as `gramophone build` takes.
            asked: pass that runs only if it is asked for -> its option's value, such as {"cut-jobs": 5000}: cut
                jobs that are estimated to take more than 5000 microseconds (`gramophone build --longest`).
            gpu: the GPU that the trace is for; None: the recorded one.
            name, security_version: of the trace; None: the recording's.

        Returns:
            The trace; its `steps` say what each pass did.

        Raises:
            GramophoneError: a slot or pass does not exist, a value does not fit its slot, or a job of the
                recording cannot be run.
        """
        from host_tools.api.building import Answer, built, retargeted
        from host_tools.passes.timeouts import MARGIN
        from host_tools.support.tensors import fitted_all

        if gpu is not None and gpu not in profile.names():
            raise GramophoneError(f"gpu: expected one of {listed(profile.names())}, found {gpu!r}")
        content, changes = retargeted(self.content, gpu, self.file)
        kinds = SlotKind.INPUT, SlotKind.PARAMETER
        answer = built(
            [content],
            Answer.of,
            Answer,
            file=self.file,
            source_hash=hashlib.sha256(self.data).digest(),
            again=lambda: self.content,
            changes=changes,
            name=name,
            security_version=security_version,
            observe=observe,
            keep_inputs=keep_inputs,
            skip=skip,
            parameters=fitted_all(content, parameters or {}, "parameters", SlotKind.PARAMETER),
            states=dict(states or {}),
            open_slots=open_slots,
            first=fitted_all(content, first or {}, "first", *kinds),
            trust_note=trust_note,
            timeout_margin=MARGIN if timeout_margin is None else timeout_margin,
            asked=asked,
        )
        trace = Trace(b"".join(answer.pieces))
        trace.steps = tuple(answer.steps)
        return trace


class Trace(TraceFile):
    """A trace that `Recording.build` made: small, checked, for every device with its GPU.

    Attributes:
        steps: what each pass did: `name`, and sizes after it; empty where it was loaded from a file.
    """

    _kind = "trace"
    steps: tuple[Step, ...] = ()

    def sign(
        self,
        key: SigningKey,
        *,
        passphrase: str | bytes | None = None,
        encrypt_for: Sequence[PublicKey] = (),
    ) -> SignedTrace:
        """Sign it, as `gramophone sign` does. The same trace and key always give the same bytes.

        Args:
            key: a signer, as `new_key` makes one, or a private key, or the path of one (PEM).
            passphrase: of an encrypted file.
            encrypt_for: public keys of devices and auditors; if there are any, its body is encrypted for them, and
                the bytes are others each time.

        Raises:
            GramophoneError: it is no private key, or every device refuses the trace or stops at it.
            OSError: a key's file cannot be read.
        """
        from host_tools.api.keys import signer_of
        from host_tools.api.signatures import checked
        from signing import encryption
        from signing.sign import signature_of

        signer = signer_of(key, passphrase)
        checked(self.data, self.file)
        data = encryption.encrypt(encryption.opened(self.data), encrypt_for) if encrypt_for else self.data
        return SignedTrace(signature_of(memoryview(data), signer) + data)


class SignedTrace(TraceFile):
    """A signed trace, as a device takes it. Who signed it is not known before `gramophone.verify`."""

    _kind = "signed trace"

    @cached_property
    def delivery(self) -> Delivery:
        """Its bytes and its parts (`signing.delivery.Delivery`)."""
        from signing.delivery import Delivery

        return Delivery(self.data)

    @cached_property
    def content(self) -> Content:
        """What it says, not verified; TraceError as `Recording.content`."""
        with layout.naming(self.file):
            return self.delivery.parse()

    @property
    def trace(self) -> Trace:
        """The trace without its envelope: nothing is verified."""
        return Trace(bytes(self.delivery.signed.trace), self.file)


def load(path: AnyPath) -> Recording | Trace | SignedTrace:
    """Read a recording, a trace or a signed trace, whichever the file holds.

    Args:
        path: the file.

    Returns:
        An object whose type says what it is. A signed trace that is damaged is returned as it is:
        `gramophone.verify` and devices refuse it, and say why.

    Raises:
        TraceError: it is none of these, or a damaged recording or trace.
        OSError: it cannot be read.
    """
    if not isinstance(path, str | os.PathLike):
        raise GramophoneError(f"path: expected the path of a file, found {type(path).__name__}")
    file = os.fspath(path)
    data = read_file(Path(path), limits.FILE_BYTES)
    if data.startswith(SIGNED_MAGIC):
        return SignedTrace(data, file)
    recording = Recording(data, file)
    return recording if recording.content.raw else Trace(data, file)


def taken(what: object, *kinds: type[F]) -> F:
    """An object of one of these kinds: as it is, or from the file that a path names.

    Raises:
        GramophoneError: it is another; the message says what was expected.
    """
    found = load(what) if isinstance(what, str | os.PathLike) else what
    if isinstance(found, kinds):
        return found
    expected = " or ".join(f"a {kind.__name__}" for kind in kinds)
    hint = ""
    if isinstance(found, Recording | Trace):
        hint = "; .sign(key) makes one" if isinstance(found, Trace) else "; .build().sign(key) makes one"
    place = f"{found.file}: " if isinstance(found, TraceFile) else ""
    name = type(found).__name__
    raise GramophoneError(f"{place}expected {expected}, or the path of its file, found a {name}{hint}")
