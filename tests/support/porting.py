# SPDX-License-Identifier: BSD-2-Clause
"""Dummies for the recipes of docs/PORTING.md: the files that each has one write or change, and what they hold.

A recipe is a mapping from file to a function that makes its text of the sources' tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.support.places import CHECKOUT

TREE = ("trace_format", "signing", "tee_replayer", "baremetal", "host_tools", "docs", "pyproject.toml")
Recipe = dict[str, Callable[[], str]]


def documented(section: str) -> list[str]:
    """The files that a section of docs/PORTING.md lists."""
    text = (CHECKOUT / "docs" / "PORTING.md").read_text(encoding="utf-8")
    part = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", part, flags=re.MULTILINE)


def like(file: str, *changes: tuple[str, str]) -> Callable[[], str]:
    """The text of another file, changed; each change must apply."""

    def make() -> str:
        text = (CHECKOUT / file).read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"{file}: {old!r}"
            text = text.replace(old, new)
        return text

    return make


def behind(file: str, line: str, added: str) -> Callable[[], str]:
    """A file with text added after a line that it has once."""
    return like(file, (line, f"{line}{added}"))


REGISTERS_FAMILY = '''"""A dummy: registers of a Mali, jobs described by registers."""

import re

from host_tools.families.family import Family, every_write
from host_tools.gpus.dummy.conversion import Registers
from host_tools.gpus.dummy.page_tables import DummyTables
from host_tools.passes.program import Program

FAMILY = Family(
    gpus=("dummy1",),
    page_tables=DummyTables,
    conversion=Registers,
    first_written={},
    starts=every_write,
    accesses=Program.observed,
    spans=lambda _program: None,
    block_pages=1,
    tlb_only_flushes=True,
    cache_commands=re.compile("gpu.COMMAND"),
)
'''

CHAINS_FAMILY = """

import re

from host_tools.families.family import Family
from host_tools.gpus.chained.conversion import Registers
from host_tools.gpus.chained.page_tables import DummyTables

FAMILY = Family(
    gpus=("dummy2",),
    page_tables=DummyTables,
    conversion=Registers,
    first_written={},
    starts=starts,
    accesses=Chains,
    spans=lambda _program: None,
    follow=follow,
    check=check,
    queues=True,
    frames_are_buffers=True,
    block_pages=1,
    tlb_only_flushes=True,
    cache_commands=re.compile("gpu.COMMAND"),
    passes={"no-op-lists": (drop_markers,)},
)
"""

GPU_TEST = '''"""The dummy's model."""

from host_tools.vgpu.binding import VirtualGpu


def test_identity() -> None:
    with VirtualGpu("GPU") as gpu:
        assert gpu.read32(0) == 0x60000000
'''


def _gpu(name: str, number: int, family: str, description: Callable[[], str]) -> Recipe:
    """A GPU that is a Mali G71 to the tools, in a family of its own, whose `__init__.py` is given."""
    folder = f"host_tools/gpus/{family}"
    return {
        "trace_format/schema/trace.py": behind(
            "trace_format/schema/trace.py", "    MALI_G71 = 2\n", f"    {name.upper()} = {number}\n"
        ),
        f"trace_format/gpus/{name}.toml": like(
            "trace_format/gpus/mali_g71.toml",
            ('name = "mali_g71"', f'name = "{name}"'),
            ('title = "Arm Mali G71"', f'title = "{name.capitalize()}"'),
            ('gpu = "MALI_G71"', f'gpu = "{name.upper()}"'),
        ),
        f"tee_replayer/drivers/{name}.c": like("tee_replayer/drivers/mali_g71.c"),
        f"{folder}/__init__.py": description,
        f"{folder}/page_tables.py": like(
            "host_tools/gpus/mali/page_tables.py", ("class MaliTables", "class DummyTables")
        ),
        f"{folder}/conversion.py": like("host_tools/gpus/v3d/conversion.py"),
        f"{folder}/guest.toml": like(
            "host_tools/gpus/mali/guest.toml",
            ('module = "panfrost"', f'module = "{family}"'),
            ("[mali_g71]", f"[{name}]"),
            ("[[mali_g71.", f"[[{name}."),
            ('gpu = "mali_g71-arch60"', f'gpu = "{name}"'),
            ('\n[mali_g72]\nlike = "mali_g71"\ngpu = "mali_g72"\n', ""),
            ('\n[mali_g52r1]\nlike = "mali_g71"\ngpu = "mali_g52r1"\n', ""),
            ('\n[mali_g31]\nlike = "mali_g71"\ngpu = "mali_g31"\n', ""),
        ),
        f"{folder}/vgpu/{family}_device.c": like("tests/support/dummy_device.c", ("dummy1", name)),
        f"tests/vgpu/test_{family}.py": lambda: GPU_TEST.replace('"GPU"', f'"{name}"'),
    }


GPU = _gpu("dummy1", 99, "dummy", lambda: REGISTERS_FAMILY)
CHAINED_GPU = _gpu("dummy2", 98, "chained", lambda: like("tests/support/dummy_chains.py")() + CHAINS_FAMILY)
GPU_NAMES = {"NAME": "dummy1", "FAMILY": "dummy"}
CHAINED_GPU_NAMES = {"NAME": "dummy2", "FAMILY": "chained"}

POWER = '''"""Power of the dummy board: one register, which does nothing."""

from __future__ import annotations

from host_tools.runners.power.block import PowerBlock
from tee_replayer.generator import boards


class DummyPower(PowerBlock):
    """The model."""

    BOARD = boards.load("dummy-board")
    PAGES = (0x10000000,)

    def _read(self, address: int) -> int | None:
        return 0 if address == self.PAGES[0] else None

    def _write(self, address: int, value: int) -> bool:
        return address == self.PAGES[0]

    def is_on(self) -> bool:
        """Always."""
        return True


MODEL = DummyPower
'''

BOARD: Recipe = {
    "baremetal/boards/dummy-board.toml": like(
        "baremetal/boards/qemu-virt.toml",
        ('title = "QEMU virt"', 'title = "Dummy board"'),
        ('sources = ["qemu_virt.c"]', 'sources = ["dummy_port.c"]'),
        ("is_silicon = false", "is_silicon = true"),
        (
            "[image]",
            '[gpu]\nprofile = "v3d42"\nvirtual = "v3d42-pi4"\npower_model = "dummy_board"\n\n[image]',
        ),
    ),
    "baremetal/dummy_port.c": like("baremetal/qemu_virt.c"),
    "host_tools/runners/power/dummy_board.py": lambda: POWER,
    "docs/BOARDS.md": behind("docs/BOARDS.md", "# Boards\n", "\nThe dummy board gives nothing.\n"),
}
BOARD_NAMES = {"power/NAME": "power/dummy_board", "NAME": "dummy-board", "PORT": "dummy_port"}

PASS_MODULE = '''"""A dummy pass."""

from host_tools.passes.registry import action_pass
from trace_format.actions import Actions
from trace_format.profile import Profile


@action_pass("dummy")
def do_nothing(rows: Actions, gpu: Profile) -> Actions:
    """Leave the actions as they are."""
    return rows
'''

PASS: Recipe = {
    "host_tools/passes/dummy_passes.py": lambda: PASS_MODULE,
    "host_tools/passes/listing.py": like(
        "host_tools/passes/listing.py",
        ("from host_tools.passes import (\n", "from host_tools.passes import (\n    dummy_passes,\n"),
        (
            "checkpoints.PASS,\n",
            "checkpoints.PASS,\n        dummy_passes.do_nothing,\n",
        ),
    ),
    "docs/DESIGN.md": like(
        "docs/DESIGN.md",
        ("\n| `timeouts` |", "\n| `dummy` | nothing | nothing changes |\n| `timeouts` |"),
    ),
}
PASS_NAMES = {"SUBJECT": "dummy"}

ROW = """        ActionType(
            Op.DUMMY,
            "a dummy: keeps a number",
            (operand("number", Type.NUMBER, "the number", "value"),),
        ),
"""

OPCODE: Recipe = {
    "trace_format/opcodes.py": like(
        "trace_format/opcodes.py",
        ("    REPLAY_START = 0x41\n", "    REPLAY_START = 0x41\n    DUMMY = 0x7E\n"),
        (
            "        ActionType(\n            Op.REPLAY_START,\n",
            f"{ROW}        ActionType(\n            Op.REPLAY_START,\n",
        ),
    ),
    "tee_replayer/core/run.c": behind(
        "tee_replayer/core/run.c",
        "    case GR_OP_INTERVAL: return wait_for(r, a, a->value, GR_STATUS_OK);\n",
        "    case GR_OP_DUMMY: r->progress[0].kept[0] = a->value; break;\n",
    ),
    "host_tools/model/interpreter.py": behind(
        "host_tools/model/interpreter.py",
        "                self._wait(row.line, row.timeout_us)\n",
        "            case Op.DUMMY:\n                self.kept[0] = row.number\n",
    ),
}

OPERATOR_ROW = """        OperatorType(
            Operator.DUMMY,
            "a dummy: each element with the other sign",
            (
                OperandType("to", "what is made", ("elements",), written=True),
                OperandType("from", "what it is made of", ("elements",)),
            ),
        ),
"""

OPERATOR_SOURCE = """/* A dummy. */
#include "numbers.h"

void gr_operator_dummy(struct gr_work *w);

void gr_operator_dummy(struct gr_work *w)
{
    enum { TO, FROM };
    for (uint32_t i = 0; i < gr_size(w, TO, 0) && gr_goes_on(w); i++)
        gr_store(w, TO, i, 0, 0, -gr_number(w, FROM, i, 0, 0, 0));
}
"""

OPERATOR: Recipe = {
    "trace_format/operators.py": like(
        "trace_format/operators.py",
        ("    ARGMAX = 7\n", "    ARGMAX = 7\n    DUMMY = 99\n"),
        (
            "        OperatorType(\n            Operator.ARGMAX,\n",
            f"{OPERATOR_ROW}        OperatorType(\n            Operator.ARGMAX,\n",
        ),
    ),
    "tee_replayer/features/operators/dummy.c": lambda: OPERATOR_SOURCE,
    "host_tools/model/operators.py": behind(
        "host_tools/model/operators.py",
        "                return [_argmax(operands[1], len(operands[0]))]\n",
        "            case Operator.DUMMY:\n                return [-operands[1]]\n",
    ),
    "tests/support/operator_samples.py": behind(
        "tests/support/operator_samples.py",
        '    Operator.ARGMAX: [empty(4, dtype="int32"), numbers(20)],\n',
        "    Operator.DUMMY: [empty(7), numbers(7)],\n",
    ),
}
OPERATOR_NAMES = {"NAME": "dummy"}
