# SPDX-License-Identifier: BSD-2-Clause
"""What a firmware says that it was made for, and what follows from that: its board, its GPU, where devices lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from host_tools.audit_firmware.image import Image
from tee_replayer.generator import boards
from tee_replayer.generator.board_checks import BoardError, Range
from tee_replayer.generator.boards import Board
from tee_replayer.generator.device import Device, DeviceError, find
from trace_format import profile as profiles
from trace_format.profile import Profile

TURN_ON = "msr sctlr_el3"
_TURN_ON = 0xD51E1000  # that instruction, with register 0
UART_BYTES, GIC_BYTES, POWER_BYTES = 0x1000, 0x1000, 0x1000


@dataclass(frozen=True)
class Target:
    """What a firmware is for.

    Attributes:
        device: its constant; None where there is none.
        profile: of its GPU; None where this version has no such one.
        board: None for a board that nothing here describes; with the image's carve-out and MMU.
        regions: name -> addresses of devices and memory.
        problems: contradictions in its constants, in words.
    """

    device: Device | None
    profile: Profile | None
    board: Board | None
    regions: dict[str, Range] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def platform(self) -> str:
        """Name of the board; "" where it does not say."""
        return self.device.platform if self.device else ""


def of_image(image: Image, board: Board | None = None) -> Target:
    """What an image says.

    Args:
        image: which.
        board: its description, of a board of one's own; of a board of the project it is found by its name.
    """
    problems, found = [], []
    for segment in image.segments:
        try:
            found += [device for _, device in find(segment.data)]
        except DeviceError as error:
            problems.append(str(error))
    if len(found) != 1 and not problems:
        problems.append(
            f"expected one constant that says what the device was made for, found {len(found) or 'none'}"
        )
    device = found[0] if len(found) == 1 else None
    if device and board is None and device.platform in boards.names():
        board = boards.load(device.platform)
    if board and not board.runs_optee:
        try:
            if device and device.carveout_bytes not in (0, board.memory["carveout"].bytes):
                board = board.with_carveout(device.carveout_bytes)
            if not board.mmu and turns_mmu_on(image):  # an option of `generate`
                board = board.with_mmu(True)
        except BoardError as error:
            problems.append(str(error))
    profile = None
    if device:
        every = map(profiles.load, profiles.names())
        profile = next((row for row in every if row.profile_id == device.profile_id), None)
    return Target(device, profile, board, _regions(image, board, profile), tuple(problems))


def turns_mmu_on(image: Image) -> bool:
    """Whether it has the instruction for it."""
    return any(
        int.from_bytes(segment.data[at : at + 4], "little") & ~31 == _TURN_ON
        for segment in image.executable
        for at in range(0, len(segment.data), 4)
    )


def _regions(image: Image, board: Board | None, profile: Profile | None) -> dict[str, Range]:
    """Devices before memory: an address belongs to the first that it lies in."""
    found: dict[str, Range] = {}
    if board:
        found = {**board.devices, **board.memory}
        if "mailbox" in found:
            found["mailbox"] = board.mailbox  # as the code sees it
        if board.runs_optee:  # the core's own data
            writable = [segment for segment in image.segments if "w" in segment.flags]
            if writable:
                largest = max(writable, key=lambda row: row.size)
                found["ram"] = Range(largest.address, largest.size)
    elif image.board:
        sizes = {"gpu": 0, "gic": GIC_BYTES, "uart": UART_BYTES, "power": POWER_BYTES}
        found = {name: Range(image.board[f"{name}_base"], size) for name, size in sizes.items()}
        found = {name: place for name, place in found.items() if place.base}
        for name in ("carveout", "mailbox"):
            found[name] = Range(image.board[f"{name}_base"], image.board[f"{name}_bytes"])
        for segment in image.segments:
            if "w" in segment.flags:
                found["ram"] = Range(segment.address, segment.size)
    if profile and "gpu" in found:  # a port may translate registers that lie after the GPU's own
        found["gpu"] = Range(found["gpu"].base, max(found["gpu"].bytes, profile.window_bytes))
    return found
