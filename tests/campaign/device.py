# SPDX-License-Identifier: BSD-2-Clause
"""The firmware that is attacked, and what its addresses are: function, source line, whose code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from host_tools.audit_firmware.image import of_elf
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import RunnerError
from tee_replayer.generator import boards, profiles
from tee_replayer.generator.board_checks import Range
from tee_replayer.generator.boards import QEMU_VIRT, Board
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import NO_DECRYPTION, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.profiles import Features
from tests.campaign import encryption, trust
from tests.campaign.cases import MIN_SECURITY_VERSION
from tests.support import replayer_samples as s
from trace_format.operators import OPERATORS

# On bare metal, as a profile (tee_replayer/profiles.toml) says, and plain with an MMU; with replay log,
# attestations and operators, without an MMU and with one, and a log without attestations, whose runs are short;
# OP-TEE's.
BARE_METAL, MMU, LINKED, LINKED_MMU, LOG_MMU = "bare-metal", "mmu", "linked", "linked-mmu", "log-mmu"
OPTEE = "optee"
RPI4, HIKEY960 = "rpi4", "hikey960"  # of boards of silicon, each with one GPU: their ports, with an MMU
BOARDS = {RPI4: "v3d42", HIKEY960: "mali_g71"}
PLAIN = "plain"
MAILBOX_BYTES, CARVEOUT_BYTES = 1 << 16, 4 << 20
_LINKED = Features(operators=tuple(OPERATORS), evidence=Evidence(log=True, hashes=True, attestation=True))
_OF_PATHS = {LINKED: _LINKED, LINKED_MMU: _LINKED, LOG_MMU: Features(evidence=Evidence(log=True, hashes=True))}
# Changes of the generated sources by which a device believes its verification: the known answer is granted, and x
# compared once. Faults that stay are accepted then, which a campaign must notice.
BELIEVING = (
    ("replayer.c", "l->state ^= gr_known_answer();", "(void)gr_known_answer();\n    l->state ^= GR_KNOWN_ANSWER;"),
    ("crypto.c", "(uint32_t)(other | other >> 32)", "(uint32_t)(other & 0)"),
)
LIBRARIES = (
    "/bearssl/",
    "/aws-lc/",
    "/optee-os/",
    "/campaign/optee/kernel.c",
    "/crypto.c",
)  # in the path of each file that is not ours; the seam, with the group law, counts with its library


def _small(board: Board) -> Board:
    """The board with little memory, because firmware with an MMU drops each line of it from the caches first: some
    30 million instructions, before which no fault is another one than after."""
    mailbox = Range(board.memory["mailbox"].base, MAILBOX_BYTES)
    return replace(board, memory={**board.memory, "mailbox": mailbox}).with_carveout(CARVEOUT_BYTES)


@dataclass(frozen=True)
class Place:
    """What an instruction was compiled from; of inlined functions, the innermost.

    Attributes:
        function: its name.
        line: "file:line".
        is_ours: not a library's.
    """

    function: str
    line: str
    is_ours: bool


@dataclass(frozen=True)
class Device:
    """A compiled firmware with debug information.

    Attributes:
        gpu: the profile.
        firmware: the program.
        path: what of Gramophone's it is.
        profile: on bare metal, the features that it has.
    """

    gpu: str
    firmware: firmware.Firmware
    path: str = BARE_METAL
    profile: str = PLAIN

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.gpu} {self.profile if self.path == BARE_METAL else self.path}"

    @property
    def features(self) -> Features:
        """What it has besides the core."""
        return features_of(self.path, self.profile)

    @property
    def code(self) -> tuple[int, bytes]:
        """Address and contents of the segment with code and constants."""
        segments = self.firmware.segments
        return next((at, data) for at, data in segments if at <= self.firmware.entry < at + len(data))

    def objects(self, name: str) -> list[tuple[int, int]]:
        """(address, bytes) of the objects of that name.

        Raises:
            RunnerError: there are none.
        """
        elf = self.firmware.folder / firmware.ELF
        found = [
            (symbol.address, symbol.size)
            for symbol in of_elf(str(elf), elf.read_bytes()).symbols
            if symbol.name.partition(".")[0] == name and symbol.kind == "OBJECT"
        ]
        if not found:
            raise RunnerError(f"{elf}: expected an object {name}, found none")
        return found

    def words(self, addresses: Sequence[int]) -> list[int]:
        """The instructions at addresses; 0 outside the code."""
        base, code = self.code
        return [int.from_bytes(code[at - base : at - base + 4], "little") if base <= at else 0 for at in addresses]

    def places(self, addresses: Sequence[int]) -> list[Place]:
        """What instructions were compiled from."""
        command = [f"{firmware.CROSS}addr2line", "-e", str(self.firmware.folder / firmware.ELF), "-f", "-i", "-a"]
        text = "\n".join(f"{at:#x}" for at in addresses)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        found = []
        for part in re.split(r"^0x[0-9a-f]{16}\n", done.stdout, flags=re.MULTILINE)[1:]:
            function, line = part.splitlines()[:2]
            line = line.partition(" (")[0]
            found.append(
                Place(function.partition(".")[0], Path(line).name, not any(part in line for part in LIBRARIES))
            )
        if len(found) != len(addresses):
            raise RunnerError(f"{command[0]} answered for {len(found)} of {len(addresses)} addresses")
        return found


def features_of(path: str, profile: str) -> Features:
    """The features of a path, on bare metal of a profile."""
    return _OF_PATHS.get(path) or profiles.named(profile).features


def build(
    gpu: str,
    folder: Path,
    options: str = "",
    *,
    path: str = BARE_METAL,
    profile: str = PLAIN,
    changes: Sequence[tuple[str, str, str]] = (),
) -> Device:
    """The firmware for the samples' key, which accepts traces from MIN_SECURITY_VERSION on.

    Args:
        gpu: the profile.
        folder: where it is compiled.
        options: of the compiler; without any, the code is compared with that of a firmware without debug
            information: it is the same.
        path: which of the bare-metal ones.
        profile: of BARE_METAL.
        changes: of the generated sources, as (file, old text, new text); the old text is there once.

    Raises:
        RunnerError: it does not compile, or is not the same.
    """
    has = features_of(path, profile)
    board = boards.load(path if path in BOARDS else QEMU_VIRT)
    has_mmu = path in (MMU, LINKED_MMU, LOG_MMU) or path in BOARDS
    out = generate(
        Options(
            *(
                gpu,
                platform_of(_small(board) if has_mmu else board),
                trust.OWN if has.trust else s.KEY,
                libraries.source(),
            ),
            min_security_version=MIN_SECURITY_VERSION,
            mmu=has_mmu,
            decryption=Decryption(True, encryption.FLEET_KEY) if has.encryption else NO_DECRYPTION,
            **has.options,
        ),
        folder,
    )
    for name, old, new in changes:
        text = (out / name).read_text()
        if text.count(old) != 1:
            raise RunnerError(f"{out / name}: expected {old!r} once, found it {text.count(old)} times")
        (out / name).write_text(text.replace(old, new))
    command = ["make", "-s", "-C", str(out), f"CC={firmware.CROSS}gcc -g {options}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunnerError(f"{out}: the firmware does not compile:\n{done.stderr.strip()}")
    found = firmware.load(out)
    if (
        not options
        and not changes
        and (path, profile) == (BARE_METAL, PLAIN)
        and found.segments != firmware.build(s.KEY, gpu, MIN_SECURITY_VERSION).segments
    ):
        raise RunnerError(f"{out}: with debug information the firmware is another program")
    return Device(gpu, found, path, profile)
