"""GPU profiles: registers, what a trace may do to them, MMU format and interrupts, read from `gpus/NAME.toml`."""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from trace_format.errors import ProfileError
from trace_format.schema import Gpu

ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Register:
    """One register.

    Attributes:
        name: `block.NAME`.
        offset: byte offset in the register window, a multiple of 4.
        readable, writable: as the hardware defines it.
        bits: bits that a write may set, by the hardware.
        busy: bits that read one while the hardware is at work.
        volatile: bits whose value a replay must not compare.
        replay_bits: bits that a trace may set; None: a trace may not write the register.
        replay_set: bits that must be one in every write by a trace.
        driver: only the replayer's nano driver writes it.
    """

    name: str
    offset: int
    readable: bool
    writable: bool
    bits: int
    busy: int
    volatile: int
    replay_bits: int | None
    replay_set: int
    driver: bool

    @property
    def index(self) -> int:
        """Word index in the register window: the operand of register actions."""
        return self.offset // 4


@dataclass(frozen=True)
class Field:
    """A field of a register: `(value >> shift) & ((1 << bits) - 1)`."""

    register: Register
    shift: int
    bits: int


@dataclass(frozen=True)
class Block:
    """Where registers lie: the same ones `count` times, `bytes` apart, from `base` on."""

    base: int
    bytes: int
    count: int


@dataclass(frozen=True)
class Job:
    """How a kind of job is started and its end is seen."""

    kind: str
    start: Register
    line: int
    done: Register
    done_bits: int


@dataclass(frozen=True)
class Profile:
    """A GPU, as far as traces and replayers need to know it.

    Attributes:
        cores: shader cores that there are: their number, or a bit for each where `cores_are_mask`.
        mmu: page table format and its constants; `address_spaces` only where there are several.
    """

    name: str
    title: str
    gpu: Gpu
    window_bytes: int
    interrupts: tuple[str, ...]
    blocks: dict[str, Block]
    registers: dict[str, Register]
    by_offset: dict[int, Register]
    identity: Register
    identity_mask: int
    identity_value: int
    cores: Field
    cores_are_mask: bool
    revision: Field
    mmu: dict[str, Any]
    jobs: tuple[Job, ...]
    profile_id: int

    @property
    def address_spaces(self) -> int:
        """How many address spaces the GPU has."""
        return int(self.mmu.get("address_spaces", 1))

    def register(self, name: str) -> Register:
        """The register called `block.NAME`; ProfileError when there is none."""
        try:
            return self.registers[name]
        except KeyError:
            raise ProfileError(
                f"GPU profile {self.name} has no register {name}", file=f"{self.name}.toml"
            ) from None

    def describe(self, offset: int) -> str:
        """Name of the register at a byte offset, or the offset where it has none."""
        register = self.by_offset.get(offset)
        return register.name if register else f"{offset:#06x}"


def names() -> list[str]:
    """Names of all GPUs that have a profile."""
    folder = resources.files("trace_format") / "gpus"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@functools.cache
def load(name: str) -> Profile:
    """The profile of GPU `name`; ProfileError when there is none or it contradicts itself."""
    if name not in names():
        raise ProfileError(f"no profile for GPU {name!r}; there are: {', '.join(names())}")
    return _parse(f"{name}.toml", _text(name))


def _text(name: str) -> bytes:
    return (resources.files("trace_format") / "gpus" / f"{name}.toml").read_bytes()


def for_gpu(gpu: int) -> Profile:
    """The profile of the GPU with this number in a manifest; ProfileError when there is none."""
    for name in names():
        profile = load(name)
        if profile.gpu == gpu:
            return profile
    raise ProfileError(f"no profile for GPU number {gpu}")


def _profile_id(data: dict[str, Any]) -> int:
    """Of what the profile says, as canonical JSON: its comments and its layout do not make traces invalid."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return int.from_bytes(hashlib.sha256(canonical).digest()[:8], "little")


def _data(file: str, text: bytes) -> dict[str, Any]:
    """What a profile says; one that is `like` another says only what differs."""
    data = tomllib.loads(text.decode())
    like = data.pop("like", None)
    if like is None:
        return data
    if like not in names():
        raise ProfileError(f"it is like {like!r}, which has none; there are: {', '.join(names())}", file=file)
    base = tomllib.loads(_text(like).decode())
    if "like" in base:
        raise ProfileError(f"it is like {like}, which is like another one itself", file=file)
    return _over(base, data)


def _over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A copy of `base` with what `own` has, tables one by one."""
    return base | {
        key: _over(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in own.items()
    }


def _parse(file: str, text: bytes) -> Profile:
    try:
        data = _data(file, text)
        registers = dict(_registers(file, data))
        by_offset: dict[int, Register] = {}
        for register in registers.values():
            if register.offset in by_offset:
                raise ProfileError(
                    f"{register.name} and {by_offset[register.offset].name} share an offset", file=file
                )
            if register.offset + 4 > data["window_bytes"]:
                raise ProfileError(f"{register.name} lies outside the register window", file=file)
            by_offset[register.offset] = register
        interrupts = tuple(data["interrupts"])
        identity = data["identity"]
        return Profile(
            name=data["name"],
            title=data["title"],
            gpu=Gpu[data["gpu"]],
            window_bytes=data["window_bytes"],
            interrupts=interrupts,
            blocks={
                name: Block(where["base"], where["bytes"], where.get("count", 1))
                for name, where in data["blocks"].items()
            },
            registers=registers,
            by_offset=by_offset,
            identity=registers[identity["register"]],
            identity_mask=identity["id_mask"],
            identity_value=identity["id"],
            cores=_field(registers, identity["cores"]),
            cores_are_mask=identity["cores"].get("is_mask", False),
            revision=_field(registers, identity["revision"]),
            mmu=data["mmu"],
            jobs=tuple(
                Job(
                    kind,
                    registers[j["start"]],
                    interrupts.index(j["done_line"]),
                    registers[j["done"]],
                    j["done_bits"],
                )
                for kind, j in data["jobs"].items()
            ),
            profile_id=_profile_id(data),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ProfileError(f"malformed GPU profile: {error!r}", file=file) from error


def _registers(file: str, data: dict[str, Any]) -> list[tuple[str, Register]]:
    found = []
    for block, rows in data["registers"].items():
        where = data["blocks"][block]
        for name, row in rows.items():
            unknown = row.keys() - {"offset", "access", "bits", "busy", "volatile", "replay"}
            if unknown:
                raise ProfileError(f"{block}.{name} has unknown keys {sorted(unknown)}", file=file)
            if row["offset"] % 4 or not 0 <= row["offset"] < where["bytes"]:
                raise ProfileError(f"{block}.{name} is misplaced", file=file, offset=row["offset"])
            bits = row.get("bits", 0)
            replay = row.get("replay", {})
            driver = replay == "driver"
            limits: dict[str, int] = {} if driver else replay
            may, must = limits.get("bits"), limits.get("set", 0)
            if may is not None and (may & ~bits or must & ~may):
                raise ProfileError(f"{block}.{name}: a trace may write bits that the register lacks", file=file)
            for prefix, base in _instances(block, where):
                full = f"{prefix}.{name}"
                register = Register(
                    full,
                    base + row["offset"],
                    "r" in row["access"],
                    "w" in row["access"],
                    bits,
                    row.get("busy", 0),
                    row.get("volatile", 0),
                    may,
                    must,
                    driver,
                )
                found.append((full, register))
    return found


def _instances(block: str, where: dict[str, int]) -> list[tuple[str, int]]:
    """Name and base of a block, or of each of its `count` instances, which follow one another: js0, js1, ..."""
    if "count" not in where:
        return [(block, where["base"])]
    return [(f"{block}{i}", where["base"] + i * where["bytes"]) for i in range(where["count"])]


def _field(registers: dict[str, Register], row: dict[str, Any]) -> Field:
    return Field(registers[row["register"]], row["shift"], row["bits"])
