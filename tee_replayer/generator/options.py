# SPDX-License-Identifier: BSD-2-Clause
"""What a replayer is generated with, and what it needs of the platform that it is generated for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Protocol

from signing.keys import Algorithm, PublicKey
from signing.trust import Anchor, Policy
from signing.trust_verdict import NO_ID
from tee_replayer import crypto
from tee_replayer.crypto import SEAMS
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.device_crypto import DeviceCrypto
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.gpu_firmware import GpuFirmware
from trace_format import profile as profiles
from trace_format.errors import GramophoneError
from trace_format.operators import Operator
from trace_format.profile import Profile
from trace_format.schema import MAX_NETWORKS
from trace_format.schema.trust import KeyKind

MAX_REQUESTS = 64  # a few hundred bytes of state, and each request that comes is compared with all
NO_EVIDENCE = Evidence()
NO_DECRYPTION = Decryption()


class GenerateError(GramophoneError):
    """What was requested cannot be generated."""


class Platform(Protocol):
    """Where a replayer runs: what it has there besides the core, and which options there is no use for."""

    @property
    def name(self) -> str:
        """As `gramophone generate --platform` takes it."""

    @property
    def notice(self) -> str:
        """Line of the generated files' head; empty: there is nothing to say."""

    @property
    def in_optee(self) -> bool:
        """Whether it is OP-TEE's core, which has SHA-256, and the normal world's data in the carve-out."""

    @property
    def has_secret(self) -> bool:
        """Whether its port gives a secret that no other device has."""

    def fitted(self, options: Options) -> Platform:
        """The same platform with the memory, MMU and files that the options ask for.

        Raises:
            GenerateError: it has no use for an option, or cannot have it.
            BoardError: there is no room for the carve-out.
            ProfileError: the GPU cannot be driven there.
        """

    def write(self, options: Options, folder: Path) -> None:
        """Write all files but the core and the LICENSE: port, README, Makefile, the crypto libraries' files.

        Args:
            options: those that it is fitted to.
            folder: to write to; it has replayer.c, replayer.h and LICENSE.
        """


@dataclass(frozen=True)
class Options:
    """A replayer that can be generated: every option is checked when the object is made.

    Attributes:
        gpu: name of the GPU profile.
        platform: of `tee_replayer.generator.platforms.platform_of`, as it is without these options.
        key: whose traces the device accepts: a key, or a trust policy.
        libraries: the crypto libraries' source trees, both of them.
        min_security_version: older traces are refused.
        carveout_bytes: secure memory for traces, a multiple of 4096; without it the board's own size.
        share_gpu: the normal world has the GPU between sessions (OP-TEE, on a board with a firewall for it).
        any_client: the pseudo-TA takes sessions of any client, not of the TA and its policy alone (OP-TEE).
        policy: the TA's policy.h (OP-TEE), instead of the one that lets root replay everything.
        programs: further files, by their path in the folder; they can be executed.
        evidence: whether the device keeps a log and signs attestations.
        decryption: which encrypted traces it can read.
        operators: what the device computes on the CPU; it refuses traces that need others.
        networks: how many a joint trace may have; 0: it takes no joint traces.
        steps: replays can stop between jobs and go on later (`gr_step`).
        schedule: so many requests with deadlines can wait for the GPU (`gr_submit`), which takes steps and
            joint traces; 0: none.
        mmu: MMU and caches on or off (bare metal); None: as the board's description says.
        streaming: it reads pieces of a trace while jobs run; in OP-TEE it excludes networks.
        rollback_store: it keeps the highest versions in flash (bare metal, on a board with flash for it).
        clock: it asks the board's clock whether the trust policy holds (bare metal, on a board with a secure one).
        algorithms: kinds of keys that later trust policies may name, besides those that `key` names; the device
            refuses policies with others.
        device_id: 16 bytes, of a board without an id of its own, for trust policies that name devices.
        gpu_firmware: of a GPU that has a microcontroller (bare metal).
        profile: of the GPU.
        target: the platform, fitted to these options.

    Raises:
        GenerateError: a key of another kind than ES256, an odd size, an option that the platform has no use for,
            or evidence that its port does not provide for.
        BoardError: there is no room for the carve-out.
        ProfileError: unknown GPU, or one that the platform cannot drive.
    """

    gpu: str
    platform: Platform
    key: Anchor
    libraries: crypto.Libraries
    _: KW_ONLY
    min_security_version: int = 0
    carveout_bytes: int | None = None
    share_gpu: bool = False
    any_client: bool = False
    policy: Path | None = None
    programs: Mapping[str, bytes] = field(default_factory=dict)
    evidence: Evidence = NO_EVIDENCE
    decryption: Decryption = NO_DECRYPTION
    operators: Collection[Operator] = ()
    networks: int = 0
    steps: bool = False
    schedule: int = 0
    mmu: bool | None = None
    rollback_store: bool = False
    clock: bool = False
    streaming: bool = False
    algorithms: Collection[KeyKind] = ()
    device_id: bytes = NO_ID
    gpu_firmware: GpuFirmware | None = None
    profile: Profile = field(init=False)
    target: Platform = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "profile", profiles.load(self.gpu))
        if self.profile.streams is not None and self.gpu_firmware is None:
            raise GenerateError(
                f"an {self.profile.title} has a microcontroller: expected gpu_firmware = FILE (in Debian's "
                "firmware-misc-nonfree it is arm/mali/arch10.8/mali_csffw.bin), found none"
            )
        if self.gpu_firmware is not None and self.profile.streams is None:
            raise GenerateError(f"an {self.profile.title} takes no gpu_firmware")
        if isinstance(self.key, PublicKey) and self.key.algorithm is not Algorithm.ES256:
            raise GenerateError(
                f"the key is an {self.key.algorithm.title} key, and this device build verifies ES256 only: "
                "sign with a P-256 key ('gramophone key new' makes one)"
            )
        if not 0 <= self.min_security_version < 1 << 32:
            raise GenerateError(
                f"security version {self.min_security_version} is out of range: expected 0 to 2^32 - 1"
            )
        if self.networks and not 2 <= self.networks <= MAX_NETWORKS:
            raise GenerateError(f"networks of a joint trace: expected 2 to {MAX_NETWORKS}, found {self.networks}")
        if self.networks and self.evidence.log:
            raise GenerateError("a replay log does not say which of several networks ran: leave one of them out")
        if self.schedule and not 1 <= self.schedule <= MAX_REQUESTS:
            raise GenerateError(f"requests that can wait: expected 1 to {MAX_REQUESTS}, found {self.schedule}")
        if self.schedule and not self.networks:
            raise GenerateError("requests need networks of a joint trace: also set the feature networks")
        if self.streaming and self.networks and self.platform.in_optee:
            raise GenerateError(
                "streaming and networks are mutually exclusive in OP-TEE, whose clients share a trace that one of "
                "them has loaded: leave one of them out"
            )
        if self.clock and not isinstance(self.key, Policy):
            raise GenerateError("the feature clock requires a trust policy")
        object.__setattr__(self, "target", self.platform.fitted(self))
        if self.decryption.wanted and not self.target.has_secret and not self.decryption.fleet_key:
            raise GenerateError(
                f"{self.target.name} has no secret from which a key for encrypted traces could follow: expected "
                "gr_board_secret (docs/LOG.md) in the board's sources, or a fleet key"
            )
        if self.libraries.aws_lc is None:
            raise GenerateError("a device's replayer needs the sources of AWS-LC")

    @property
    def cryptography(self) -> DeviceCrypto:
        """What the device takes of the libraries."""
        return DeviceCrypto(
            self.evidence, not self.platform.in_optee, self.linked_algorithms, self.decryption.wanted
        )

    @property
    def linked_algorithms(self) -> tuple[KeyKind, ...]:
        """What it verifies besides ES256: what its own policy needs, and what later ones may."""
        if isinstance(self.key, PublicKey):
            return ()
        wanted = {*self.algorithms, *(key.kind for key in self.key.keys)}
        return tuple(kind for kind in SEAMS if kind in wanted)
