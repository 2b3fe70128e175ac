# SPDX-License-Identifier: BSD-2-Clause
"""The replayer's core as a shared library of this machine, and its Python binding.

It is the same C that goes into firmware; only the port differs: registers are callbacks given as C function
pointers, so that with the virtual GPU no Python runs between the core and the registers.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import cffi

from signing.keys import Algorithm, PublicKey
from signing.trust_verdict import NO_ID, Judge
from tee_replayer import crypto, features
from tee_replayer.features import operators
from tee_replayer.generator import amalgamate, gpu_firmware, target
from tee_replayer.generator.decryption import HAS_ENCRYPTION
from tee_replayer.generator.gpu_firmware import GpuFirmware
from tee_replayer.generator.linking import link, own_sources
from tee_replayer.generator.status import CORE, ReplayError, Report
from tee_replayer.generator.strictness import WARNINGS
from trace_format.emit import GENERATED, c_memory
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.operators import OPERATORS, Operator
from trace_format.profile import Profile
from trace_format.schema import REPORT
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

HERE = CORE.parent
PLATFORM_BYTES = 16
NO_DEADLINE = (1 << 64) - 1
CFLAGS = ["-std=c11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=default"]
_FIELDS = tuple(Report.__dataclass_fields__)


def _defines(
    profile: Profile,
    linked: crypto.Linked,
    macros: Collection[str],
    numbers: Mapping[str, int],
    *,
    encryption: bool,
    steps: bool,
    trust: bool,
) -> dict[str, str]:
    """Macros of features, with their values."""
    networks, schedule = numbers["networks"], numbers["schedule"]
    defines = dict.fromkeys(macros, "")
    if profile.streams:
        defines[amalgamate.HAS_COMMAND_STREAMS] = ""
    if encryption:
        defines[HAS_ENCRYPTION] = ""
    if networks:
        defines[amalgamate.HAS_NETWORKS] = str(networks)
    if steps:
        defines[amalgamate.HAS_STEPS] = ""
    if schedule:
        defines[amalgamate.HAS_SCHEDULE] = str(schedule)
    if trust:
        seams = (crypto.SEAMS[kind][1] for kind in linked.algorithms)
        defines |= dict.fromkeys((amalgamate.HAS_TRUST, amalgamate.HAS_CLOCK, *seams), "")
    return defines


def build(
    profile: Profile,
    libraries: crypto.Libraries | None,
    folder: Path,
    extra: tuple[str, ...] = (),
    linked_operators: Collection[Operator] = tuple(OPERATORS),
    *,
    trust: bool = False,
    encryption: bool = True,
    algorithms: Collection[KeyKind] = tuple(KeyKind),
    networks: int = 0,
    steps: bool = False,
    schedule: int = 0,
    macros: Collection[str] = (),
    firmware: GpuFirmware | None = None,
) -> Path:
    """Compile the library for one GPU, unless that was done before.

    Args:
        profile: the GPU.
        libraries: the crypto libraries' source trees; None: OpenSSL's libcrypto of this machine does the
            cryptography. Where AWS-LC has nothing for this machine, BearSSL does all of it.
        folder: where builds are kept, under a name made from a hash of all that went in.
        extra: further compiler flags (sanitizers).
        linked_operators: what it computes on the CPU; a device has those that its policy names.
        trust: a trust policy says who signs, instead of one key.
        encryption: it reads encrypted traces, if the libraries have AES for this machine.
        networks: of a joint trace, at most; 0: it takes none.
        steps: it has `gr_step`.
        schedule: so many requests can wait (`gr_submit`); with networks and steps.
        algorithms: of those keys, where the libraries have them for this machine.
        macros: of further features.
        firmware: of the GPU's microcontroller, where it has one.

    Raises:
        GramophoneError: no compiler, or the compilation failed (its output is in the message).
    """
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise GramophoneError(f"no C compiler: {compiler!r} is not installed (apt-get install gcc)")
    text = target.header(profile)
    made_here = {"gr_target.h": text} | ({gpu_firmware.SOURCE: gpu_firmware.source(firmware)} if firmware else {})
    linked = crypto.linked(libraries, algorithms if trust else ())
    encryption = encryption and linked.has_aes
    switches = {"networks": networks, "schedule": schedule}
    defines = _defines(profile, linked, macros, switches, encryption=encryption, steps=steps, trust=trust)
    own = own_sources(
        profile,
        {*defines, *([amalgamate.HAS_OPERATORS] if linked_operators else [])},
        linked.seam,
        linked_operators,
    )
    extra = (*extra, *(f"-D{name}={value}" for name, value in defines.items()))
    if linked_operators:
        extra = (*extra, f"-D{amalgamate.HAS_OPERATORS}(X)={operators.listed(linked_operators)}")
    made = [GENERATED / name for name in ("gramophone_trace.h", "gramophone_report.h", "gramophone_trust.h")]
    folders = (CORE, HERE / "host", HERE / "crypto")
    headers = [
        *target.driver_files(profile)[:-1],
        *(path for each in folders for path in each.glob("*.h")),
        *features.headers(),
        *made,
    ]
    digest = hashlib.sha256("\0".join([*made_here.values(), compiler, *CFLAGS, *WARNINGS, *extra]).encode())
    for path in [*own, *sorted(headers), *linked.sources, *linked.included]:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(read_file(path)).digest())
    result = folder / f"replayer-{profile.name}-{digest.hexdigest()[:16]}.so"
    if result.exists():
        return result
    folder.mkdir(parents=True, exist_ok=True)
    link(result, made_here, own, linked, [compiler, *CFLAGS, *extra])
    return result


@functools.cache
def _ffi() -> cffi.FFI:
    """Declarations: struct gr_report, and what host.h has."""
    ffi = cffi.FFI()
    host = re.sub(r"^#.*$", "", (HERE / "host" / "host.h").read_text(encoding="utf-8"), flags=re.MULTILINE)
    binding = "struct gr_binding { void *data; uint64_t bytes; uint32_t slot; };\n"
    ffi.cdef(c_memory.declaration(REPORT, "report") + binding + host)
    return ffi


class HostReplayer:
    """A replayer over a carve-out in this process.

    Args:
        library: from `build`.
        profile: the GPU.
        gpu: `(ctx, read32, write32, interrupt_level, advance)` as cffi pointers or addresses; see host/host.h.
        carveout: writable memory that the GPU sees at `phys`; must stay where it is.
        phys: GPU bus address of the carve-out.
    """

    def __init__(self, library: Path, profile: Profile, gpu: tuple[Any, ...], carveout: Any, phys: int) -> None:
        ffi = _ffi()
        self._lib = _open(library)
        self._profile = profile
        self._carveout = ffi.from_buffer("uint8_t[]", carveout, require_writable=True)
        struct = ffi.new("struct gr_host_gpu *")
        kinds = dict(ffi.typeof(struct[0]).fields)
        for field, value in zip(("ctx", "read32", "write32", "interrupt_level", "advance"), gpu, strict=True):
            setattr(struct, field, ffi.cast(kinds[field].type, value))
        self._gpu = struct, gpu
        host = self._lib.gr_host_new(struct, self._carveout, phys, len(self._carveout))
        if host == ffi.NULL:
            raise MemoryError("gr_host_new")
        self._host = ffi.gc(host, self._lib.gr_host_free)
        self._bound: dict[int, Any] = {}
        self._keys: list[Any] = []
        self._requests: dict[int, Any] = {}
        self._paced: Any = None

    @property
    def report(self) -> Report:
        """What happened last."""
        report = self._lib.gr_host_report(self._host)
        return Report(*(int(getattr(report, name)) for name in _FIELDS))

    @property
    def writes(self) -> int:
        """Registers written so far."""
        return int(self._lib.gr_host_writes(self._host))

    def load(self, signed: bytes, key: PublicKey, min_security_version: int = 0) -> Report:
        """Verify and load a signed trace; ReplayError when it is refused, ValueError for a key not of ES256."""
        if key.algorithm is not Algorithm.ES256:
            raise ValueError(f"a device verifies ES256, this is an {key.algorithm.title} key")
        self._bound.clear()
        self._file = signed  # a replay reads pieces of it
        return self._checked(
            self._lib.gr_host_load(self._host, signed, len(signed), key.raw, key.kid, min_security_version)
        )

    def load_trusted(self, signed: bytes, root: bytes, where: Judge, min_security_version: int = 0) -> Report:
        """The same with a trust policy, of a library that was built so.

        Args:
            signed: the signed trace.
            root: the device's own policy.
            where: what the device knows besides it.
            min_security_version: older traces are refused.
        """
        self._bound.clear()
        self._file = signed
        policy = bytes(root)
        platform = (where.platform or "").encode().ljust(PLATFORM_BYTES, b"\0")
        device_id = where.device_id or NO_ID
        kept = [_ffi().from_buffer("uint8_t[]", data) for data in (policy, platform, device_id)]
        return self._checked(
            self._lib.gr_host_load_trusted(
                self._host, signed, len(signed), *kept, where.least_version, where.now, min_security_version
            )
        )

    def decrypts_with(self, secret: bytes | None, fleet_key: bytes | None = None) -> None:
        """Read encrypted traces from now on.

        Args:
            secret: the device's, 32 bytes (`signing.device_keys`).
            fleet_key: a private key of P-256, 32 bytes, the most significant first.
        """
        ffi = _ffi()
        self._keys = [
            ffi.NULL if key is None else ffi.from_buffer("uint8_t[]", key) for key in (secret, fleet_key)
        ]
        self._lib.gr_host_keys(self._host, *self._keys)

    def bind(self, slot: int, data: Any) -> None:
        """Bind a writable, dense buffer to a slot for all following runs; ReplayError when its size is wrong.

        Args:
            slot: its number.
            data: the buffer; None: none is bound any more.
        """
        ffi = _ffi()
        buffer = ffi.NULL if data is None else ffi.from_buffer("uint8_t[]", data, require_writable=True)
        size = 0 if data is None else len(buffer)
        self._accepted(self._lib.gr_host_bind(self._host, slot, buffer, size), offset=slot)
        self._bound[slot] = buffer  # only now: a replayer that refuses it goes on using the one before

    @property
    def networks(self) -> int:
        """Number of networks of the loaded trace."""
        return int(self._lib.gr_host_networks(self._host))

    def select(self, network: int) -> None:
        """Replay this network from now on, by its index in a joint trace; IndexError: there is none."""
        if self._lib.gr_host_select(self._host, network) != Status.OK:
            raise IndexError(network)

    def run(self) -> Report:
        """Replay once; ReplayError when it fails."""
        return self._checked(self._lib.gr_host_run(self._host))

    def step(self) -> bool:
        """Replay as far as the next job that can wait; whether there is more to do. ReplayError when it fails."""
        if self._lib.gr_host_step(self._host):
            return True
        self._checked(self.report.status)
        return False

    def give_away(self) -> None:
        """Before others drive the GPU; RuntimeError: it does not come out of the reset, or this has no steps."""
        if not self._lib.gr_host_yield(self._host):
            raise RuntimeError("the GPU cannot be given away")

    def submit(self, network: int, due_us: int, data: Mapping[int, Any] | None = None) -> int:
        """Ask for a replay that is to be done at a time of the replayer's clock, of a library that can.

        Args:
            network: its index.
            due_us: the time; NO_DEADLINE: none.
            data: writable, dense buffers of its inputs and outputs, by slot; others are as they were bound.

        Returns:
            The request's number.

        Raises:
            ReplayError: it is refused: ARGUMENT, QUEUE, DEADLINE, STATE.
        """
        ffi = _ffi()
        given = {
            slot: ffi.from_buffer("uint8_t[]", item, require_writable=True) for slot, item in (data or {}).items()
        }
        bindings = ffi.new("struct gr_binding[]", [(item, len(item), slot) for slot, item in given.items()])
        number = ffi.new("uint32_t *")
        self._accepted(self._lib.gr_host_submit(self._host, network, due_us, bindings, len(given), number))
        self._requests[int(number[0])] = bindings, given
        return int(number[0])

    def schedule_step(self) -> int:
        """One step of the request that is first; the number of the one that is over, as `report` says, or 0."""
        number = int(self._lib.gr_host_schedule_step(self._host))
        self._requests.pop(number, None)
        return number

    @property
    def requests(self) -> int:
        """How many wait or are under way."""
        return int(self._lib.gr_host_requests(self._host))

    def withdraw(self, number: int) -> None:
        """Take a request back; KeyError: there is none."""
        if self._lib.gr_host_withdraw(self._host, number) != Status.OK:
            raise KeyError(number)
        self._requests.pop(number, None)

    @property
    def now_ns(self) -> int:
        """The replayer's clock."""
        return int(self._lib.gr_host_now_ns(self._host))

    def set_clock(self, now_ns: int) -> None:
        """Have the clock show a time, even one before: for tests."""
        self._lib.gr_host_set_clock(self._host, now_ns)

    def pace(self, tick_ns: int, waits_us: Sequence[int]) -> None:
        """From now on an access takes so long, and waiting in an action of the trace at least as long as is said.

        Args:
            tick_ns: of each look at the clock, a register or an interrupt line.
            waits_us: of each action.
        """
        self._paced = _ffi().new("uint32_t[]", list(waits_us))
        self._lib.gr_host_pace(self._host, tick_ns, self._paced, len(waits_us))

    def restart(self) -> None:
        """The next run starts as the first did: with a reset GPU, cleared memory and the prologue."""
        self._lib.gr_host_restart(self._host)

    def translate(self, space: int, va: int) -> int | None:
        """Carve-out offset that a GPU address of the loaded trace maps to, as the driver's page tables have it."""
        at = int(self._lib.gr_host_translate(self._host, space, va))
        return None if at == (1 << 64) - 1 else at

    def slow(self, read_us: int, end: int = 0) -> None:
        """For tests: from now on, each read of a trace takes so long (microseconds), and beyond `end` fails."""
        self._lib.gr_host_slow(self._host, read_us, end)

    def unload(self) -> None:
        """Reset the GPU and wipe the carve-out."""
        self._lib.gr_host_unload(self._host)
        self._bound.clear()
        self._requests.clear()

    def _accepted(self, status: int, offset: int = 0) -> None:
        """ReplayError of a call that leaves no report, if it was refused."""
        report = Report(status, 0, 0, 0, offset, 0, 0, 0, 0, 0, 0)
        if not report.ok:
            raise ReplayError(report, self._profile)

    def _checked(self, status: int) -> Report:
        report = self.report
        if not report.ok or status != report.status:
            raise ReplayError(report, self._profile)
        return report


@functools.cache
def _open(library: Path) -> Any:
    return _ffi().dlopen(str(library))


def lz4_decode(library: Path, data: bytes, out_bytes: int, chunk_bytes: int) -> bytes | None:
    """Only the device's LZ4 decoder: the output, or None when it refuses the data."""
    out = _ffi().new("uint8_t[]", max(out_bytes, 1))
    good = _open(library).gr_host_lz4_decode(data, len(data), out, out_bytes, chunk_bytes)
    return bytes(out)[:out_bytes] if good else None
