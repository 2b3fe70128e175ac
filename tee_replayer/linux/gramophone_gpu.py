# SPDX-License-Identifier: BSD-2-Clause
"""Replays from Python, over libgramophone_gpu.so. It needs nothing but Python's standard library.

with Gpu() as gpu:
    gpu.load(Path("lenet.sgtr").read_bytes())
    output = bytearray(gpu.slots["prob"].bytes)
    gpu.bind("data", picture)  # any buffer: a NumPy array, an array.array, bytes
    gpu.bind("prob", output)
    gpu.run()
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LIBRARY = "libgramophone_gpu.so"
KINDS = {1: "input", 2: "output", 3: "parameter"}
REFUSED = 1
ANY_TIME = (1 << 64) - 1


class GpuError(Exception):
    """A call that failed.

    Args:
        text: what happened.
        refused: the replayer refused the trace, or the replay failed; else something is missing or busy.
    """

    def __init__(self, text: str, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused


@dataclass(frozen=True)
class Slot:
    """A tensor of the trace.

    Attributes:
        index: its number.
        kind: "input", "output" or "parameter".
        dtype: number of the element's type, as in the trace format.
        shape: outermost dimension first.
        bytes: of dense data.
        bound: the trace holds a value, so that it may be left out.
    """

    index: int
    kind: str
    dtype: int
    shape: tuple[int, ...]
    bytes: int
    bound: bool


@dataclass(frozen=True)
class Network:
    """A network of a joint trace, whose slots are called NETWORK/SLOT.

    Attributes:
        index: its number.
        predicted_us, longest_job_us, period_us, priority: as the trace says; 0: not known.
    """

    index: int
    predicted_us: int
    longest_job_us: int
    period_us: int
    priority: int


class _Network(ctypes.Structure):
    """struct gramophone_gpu_network."""

    _fields_ = (
        ("name", ctypes.c_char * 33),
        *((name, ctypes.c_uint32) for name in ("first_slot", "slot_count", "predicted_us", "longest_job_us")),
        *((name, ctypes.c_uint32) for name in ("period_us", "priority")),
    )


class _Slot(ctypes.Structure):
    """struct gramophone_gpu_slot."""

    _fields_ = (
        ("name", ctypes.c_char * 33),
        ("kind", ctypes.c_uint8),
        ("dtype", ctypes.c_uint8),
        ("rank", ctypes.c_uint8),
        ("bound", ctypes.c_bool),
        ("dims", ctypes.c_uint32 * 6),
        ("bytes", ctypes.c_uint64),
    )


_U32 = ("status", "phase", "action", "op", "offset", "expected", "seen", "retries", "jobs")
_U64 = ("actions", "secure_bytes", "verify_us", "load_us", "replay_us")


class _Report(ctypes.Structure):
    """struct gramophone_gpu_report."""

    _fields_ = (*((name, ctypes.c_uint32) for name in _U32), *((name, ctypes.c_uint64) for name in _U64))


class Gpu:
    """The GPU, for this process alone until it is closed.

    Args:
        library: file of the C library.

    Raises:
        OSError: the library cannot be loaded.
        GpuError: UIO has no GPU, it is busy, or there is no permission.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = ctypes.CDLL(library)
        self._library.gramophone_gpu_error.restype = ctypes.c_char_p
        self._library.gramophone_gpu_slot.restype = ctypes.c_bool
        self._library.gramophone_gpu_network.restype = ctypes.c_bool
        self._library.gramophone_gpu_waiting.restype = ctypes.c_uint32
        self._bound: dict[str, Any] = {}
        self._trace = b""
        self._slots: dict[str, Slot] = {}
        self._check(self._library.gramophone_gpu_open())

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Reset the GPU, wipe the memory, let others have it."""
        self._library.gramophone_gpu_close()
        self._slots, self._bound = {}, {}

    @property
    def slots(self) -> Mapping[str, Slot]:
        """Of the loaded trace, by name."""
        return self._slots

    def load(self, signed: bytes) -> None:
        """Verify and load a signed trace; GpuError when it is refused."""
        self._slots, self._bound = {}, {}
        self._trace = signed  # a library that streams reads it in each run
        self._check(self._library.gramophone_gpu_load(signed, ctypes.c_size_t(len(signed))))
        self._name_slots()

    def load_file(self, path: str) -> None:
        """Verify and load a signed trace in a file; GpuError when it is refused, or cannot be read."""
        self._slots, self._bound = {}, {}
        self._check(self._library.gramophone_gpu_load_file(path.encode()))
        self._name_slots()

    def _name_slots(self) -> None:
        for index in range(self._library.gramophone_gpu_slot_count()):
            row = _Slot()
            self._library.gramophone_gpu_slot(index, ctypes.byref(row))
            shape = tuple(row.dims[: row.rank])
            self._slots[row.name.decode()] = Slot(index, KINDS[row.kind], row.dtype, shape, row.bytes, row.bound)

    def bind(self, name: str, data: Any) -> None:
        """Bind a buffer to a slot, for all following runs.

        Args:
            name: of the slot.
            data: dense data in C order of the slot's size; for an output a writable buffer, which runs write to.
                An input that cannot be written to is copied now.

        Raises:
            GpuError: no such slot, or a buffer of another size.
            TypeError: an output that cannot be written to, or data that is not dense.
        """
        if name not in self._slots:
            raise GpuError(f"no slot {name!r}; there are: {', '.join(self._slots) or 'none'}", False)
        slot, view = self._slots[name], memoryview(data)
        if not view.c_contiguous:
            raise TypeError(f"slot {name}: expected dense data in C order")
        if view.nbytes != slot.bytes:
            raise GpuError(f"slot {name}: expected {slot.bytes} bytes, found {view.nbytes}", False)
        if view.readonly:
            if slot.kind == "output":
                raise TypeError(f"slot {name}: expected a buffer that can be written to")
            view = memoryview(bytearray(view))
        kept = (ctypes.c_char * slot.bytes).from_buffer(view)
        self._check(self._library.gramophone_gpu_bind(slot.index, kept, ctypes.c_size_t(slot.bytes)))
        self._bound[name] = kept

    def run(self, network: str | None = None) -> None:
        """Replay once, a joint trace's network of this name; GpuError when it fails."""
        if network is not None:
            self._check(self._library.gramophone_gpu_choose(self._index(network)))
        self._check(self._library.gramophone_gpu_run())

    @property
    def networks(self) -> Mapping[str, Network]:
        """Of the loaded trace, by name; none if it is not a joint one."""
        found: dict[str, Network] = {}
        row = _Network()
        while self._library.gramophone_gpu_network(len(found), ctypes.byref(row)):
            found[row.name.decode()] = Network(
                len(found), row.predicted_us, row.longest_job_us, row.period_us, row.priority
            )
        return found

    def submit(self, network: str, within_us: int = ANY_TIME) -> int:
        """Ask for a replay within so many microseconds, with what is bound to the network's slots.

        Returns:
            The request's number, for `step` and `withdraw`.

        Raises:
            GpuError: no such network; too many wait; this request, or another, would be late.
        """
        number = ctypes.c_uint32()
        due = ctypes.c_uint64(within_us)
        self._check(self._library.gramophone_gpu_submit(self._index(network), due, ctypes.byref(number)))
        return number.value

    def step(self) -> int:
        """Run a piece of what is due first: the number of the request that is over by it, or 0.

        Raises:
            GpuError: the replay of a request has failed; it does not wait any more.
        """
        over = ctypes.c_uint32()
        self._check(self._library.gramophone_gpu_step(ctypes.byref(over)))
        return over.value

    @property
    def waiting(self) -> int:
        """How many requests wait or are under way."""
        return int(self._library.gramophone_gpu_waiting())

    def withdraw(self, request: int) -> None:
        """Take a request back; GpuError when it does not wait."""
        self._check(self._library.gramophone_gpu_withdraw(request))

    def _index(self, network: str) -> int:
        if network not in self.networks:
            raise GpuError(f"no network {network!r}; there are: {', '.join(self.networks) or 'none'}", False)
        return self.networks[network].index

    @property
    def report(self) -> dict[str, int]:
        """What the last load or run reported, by the names of struct gramophone_gpu_report."""
        report = _Report()
        self._library.gramophone_gpu_report(ctypes.byref(report))
        return {name: int(getattr(report, name)) for name in (*_U32, *_U64)}

    def _check(self, status: int) -> None:
        if status:
            raise GpuError(self._library.gramophone_gpu_error().decode(errors="replace"), status == REFUSED)
