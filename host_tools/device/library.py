# SPDX-License-Identifier: BSD-2-Clause
"""The C client library (tee_replayer/optee/client) from Python: one class, over cffi's backend."""

from __future__ import annotations

import errno
import os
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trace_format.errors import GramophoneError

LIBRARY = "libgramophone_tee.so"
DEVICE = Path("/dev/tee0")  # Linux: Documentation/userspace-api/tee.rst
TA, PTA = "ta", "pta"
VIAS = {TA: 0, PTA: 1}  # enum gramophone_tee_via
LOGINS = {"public": 0, "user": 1, "group": 2}  # enum gramophone_tee_login
REFUSALS, REFUSAL_BITS = 0x80000000, 0xF0000000  # results of the replayer and the TA: gramophone_pta.h
ACCESS_DENIED, ITEM_NOT_FOUND = 0xFFFF0001, 0xFFFF0008  # GlobalPlatform's TEEC_ERROR_*
NOT_SUPPORTED, BUSY, BAD_STATE = 0xFFFF000A, 0xFFFF000D, 0xFFFF0007
LOG = 0x8F03FF03  # GRAMOPHONE_RESULT(GR_STATUS_LOG)
ORIGIN_API, ORIGIN_TEE = 1, 3  # TEEC_ORIGIN_*
ENTRY_BYTES, ATTESTATION_BYTES, KEY_BYTES = 240, 1024, 65  # gramophone_tee.h
ANY_TIME = (1 << 64) - 1  # GR_NO_DEADLINE
ENTRIES = 64  # that wait in the device at most: gramophone_pta_log.c


class TeeError(GramophoneError):
    """A call that failed.

    Args:
        text: what happened.
        result: the TEEC_Result.
        origin: who gave it: TEEC_ORIGIN_*.
        log: what the replayer reports of a load or replay.
    """

    def __init__(self, text: str, result: int, origin: int, log: dict[str, int] | None = None) -> None:
        super().__init__(text)
        self.result = result
        self.origin = origin
        self.log = log

    @property
    def refused(self) -> bool:
        """Whether the replayer or a policy refused; otherwise something is missing or wrong."""
        return self.result & REFUSAL_BITS == REFUSALS or self.result == ACCESS_DENIED


class Session:
    """A session with the replayer, which has the GPU until it is closed.

    Args:
        via: TA or PTA.
        login: one of LOGINS, as whom.
        group: the group's id, with the login "group".
        library: the C library; without it where the system looks for libraries.

    Raises:
        GramophoneError: library, cffi's backend or device are missing.
        TeeError: the session is refused.
    """

    def __init__(self, via: str = TA, login: str = "user", group: int = 0, library: str = LIBRARY) -> None:
        self._ffi, self._lib = _open(library)
        self._origin = self._ffi.new("uint32_t *")
        handle = self._ffi.new("struct gramophone_tee **")
        result = self._lib.gramophone_tee_open(handle, VIAS[via], LOGINS[login], group, self._origin)
        if result:
            hint = _hint(via) if result == ITEM_NOT_FOUND else ""
            raise self._error(f"opening a session with the {via.upper()}", result, hint)
        self._tee = self._ffi.gc(handle[0], self._lib.gramophone_tee_close)
        self._trace: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session: the trace is unloaded, the GPU reset."""
        self._ffi.release(self._tee)
        self._trace = None

    def load(self, signed: Any) -> None:
        """Send a signed trace (any buffer), have it verified and loaded; TeeError when it is refused."""
        self._trace = self._ffi.from_buffer(signed)  # kept: a device that streams reads it in each replay
        self._call("loading", self._lib.gramophone_tee_load, self._trace, len(self._trace))

    def manifest(self) -> Any:
        """The loaded trace's `struct gr_manifest`."""
        manifest = self._ffi.new("struct gr_manifest *")
        self._call("reading the manifest", self._lib.gramophone_tee_trace, manifest)
        return manifest

    def slots(self) -> list[Any]:
        """The loaded trace's `struct gramophone_slot`s."""
        count = self._ffi.new("uint32_t *")
        self._call("counting slots", self._lib.gramophone_tee_slot_count, count)
        slots = [self._ffi.new("struct gramophone_slot *") for _ in range(count[0])]
        for index, slot in enumerate(slots):
            self._call("describing a slot", self._lib.gramophone_tee_slot, index, slot)
        return slots

    def set_input(self, slot: int, data: bytes) -> None:
        """Give an input or a parameter its value, for all following runs."""
        self._call(f"setting slot {slot}", self._lib.gramophone_tee_set_input, slot, data, len(data))

    def run(self) -> None:
        """Replay once; TeeError when it fails."""
        self._call("replaying", self._lib.gramophone_tee_run)

    def networks(self) -> list[Any]:
        """The loaded trace's `struct gramophone_network`s; none where the device takes no joint traces."""
        count = self._ffi.new("uint32_t *")
        try:
            self._call("counting networks", self._lib.gramophone_tee_network_count, count)
        except TeeError as error:
            if error.result == NOT_SUPPORTED:
                return []
            raise
        networks = [self._ffi.new("struct gramophone_network *") for _ in range(count[0])]
        for index, network in enumerate(networks):
            self._call("describing a network", self._lib.gramophone_tee_network, index, network)
        return networks

    def choose(self, network: int) -> None:
        """Have a network, until this session ends; TeeError when another session has it."""
        self._call(f"choosing network {network}", self._lib.gramophone_tee_choose, network)

    def submit(self, within_us: int = ANY_TIME) -> None:
        """Ask for a replay that is done within so many microseconds; TeeError when it would be late."""
        self._call("asking for a replay", self._lib.gramophone_tee_submit, within_us)

    def step(self) -> bool:
        """Run a piece of what is first; whether the request waits still. TeeError when its replay has failed."""
        waits = self._ffi.new("bool *")
        self._call("replaying", self._lib.gramophone_tee_step, waits)
        return bool(waits[0])

    def yield_gpu(self) -> None:
        """Give the GPU to the normal world until the next step, run or load of any session."""
        self._call("giving the GPU back", self._lib.gramophone_tee_yield)

    def output(self, slot: int, size: int) -> bytes:
        """What the last run computed: `size` bytes, which is all of the slot."""
        data = self._ffi.new("uint8_t[]", size)
        self._call(f"reading slot {slot}", self._lib.gramophone_tee_get_output, slot, data, size)
        return bytes(self._ffi.buffer(data))

    def log(self) -> dict[str, int]:
        """How the last load or run went, also one that failed: the fields of `struct gr_report`."""
        report = self._ffi.new("struct gr_report *")
        self._call("reading the log", self._lib.gramophone_tee_log, report)
        return {name: int(getattr(report, name)) for name in dir(report) if name != "reserved"}

    def entries(self) -> bytes:
        """All entries of the device's replay log that nobody has taken yet; they are given once."""
        data = self._ffi.new("uint8_t[]", ENTRIES * ENTRY_BYTES)
        return self._answer("taking entries of the replay log", self._lib.gramophone_tee_entries, data)

    def attest(self, nonce: bytes) -> bytes:
        """An attestation of the last replay, on a nonce of 8 to 64 bytes."""
        data = self._ffi.new("uint8_t[]", ATTESTATION_BYTES)
        return self._answer("asking for an attestation", self._lib.gramophone_tee_attest, data, nonce, len(nonce))

    def device_key(self) -> bytes:
        """The key that verifies the device's attestations: a point of P-256, 04 || x || y."""
        key = self._ffi.new("uint8_t[]", KEY_BYTES)
        self._call("asking for the device's key", self._lib.gramophone_tee_device_key, key)
        return bytes(self._ffi.buffer(key))

    def _answer(self, doing: str, function: Any, data: Any, *arguments: Any) -> bytes:
        """What a function answers into `data`."""
        size = self._ffi.new("size_t *")
        self._call(doing, function, *arguments, data, len(data), size)
        return bytes(self._ffi.buffer(data, size[0]))

    def text(self, value: Any) -> str:
        """A text or a hash of a structure: text up to its 0, bytes in hexadecimal."""
        if self._ffi.typeof(value).item.cname == "char":
            return bytes(self._ffi.string(value)).decode("utf-8", "replace")
        return bytes(self._ffi.buffer(value)).hex()

    def _call(self, doing: str, function: Any, *arguments: Any) -> None:
        result = function(self._tee, *arguments, self._origin)
        if result:
            raise self._error(doing, result)

    def _error(self, doing: str, result: int, hint: str = "") -> TeeError:
        """What went wrong in words, unless `hint` knows better."""
        origin = int(self._origin[0])
        if result == NOT_SUPPORTED and not hint:
            hint = "the device was generated without it (evidence, schedule in its device file)"
        words = hint or self._words(self._lib.gramophone_tee_text(result))
        if result == LOG:
            words += "; 'gramophone-tee log FILE' takes the entries that wait"
        who = self._words(self._lib.gramophone_tee_origin_text(origin))
        return TeeError(f"{doing}: {words} (result {result:#010x}, from {who})", int(result), origin)

    def _words(self, text: Any) -> str:
        return bytes(self._ffi.string(text)).decode()


def _hint(via: str) -> str:
    """What is missing, where nothing was found: libteec gives no details when it cannot open a device."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR))
    except OSError as error:
        if error.errno == errno.EACCES:
            return f"{DEVICE}: no permission to use it: root has it, and the group that owns it"
        missing = "there is no TEE: is OP-TEE in the firmware, and the kernel's driver loaded (modprobe optee)?"
        return f"{DEVICE}: {error.strerror}: {missing}"
    if via == PTA:
        return "OP-TEE has no such pseudo-TA: was it built with CFG_GRAMOPHONE_PTA=y?"
    return "OP-TEE finds no such TA: is it in the TA folder (/usr/lib/optee_armtz), does tee-supplicant run?"


@cache
def _open(library: str) -> tuple[Any, Any]:
    """cffi's FFI, and the library."""
    try:
        from host_tools.device._binding import ffi
    except ImportError as error:
        raise GramophoneError(f"Python's cffi is missing: {error} (Debian: python3-cffi-backend)") from None
    try:
        return ffi, ffi.dlopen(library)
    except OSError as error:
        raise GramophoneError(
            f"{library} cannot be loaded: {error}; it is made of client/ in a folder that "
            "'gramophone generate' wrote for OP-TEE, over libteec (Debian: libteec2)"
        ) from None
