# SPDX-License-Identifier: BSD-2-Clause
"""`make size-diff`: what a change does to the firmware: code, data and stack by function, against another commit.

Both firmwares are generated with one fixed key, each by the generator of its own tree, and compiled with the same
compiler. The stack of a function is its own frame, as GCC reports it after link-time optimisation.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from rich.console import Console
from rich.table import Table

from host_tools.runners import libraries
from host_tools.runners.firmware import CROSS, ELF
from tests.support.archives import extract
from tests.support.places import CHECKOUT
from trace_format.errors import GramophoneError

KEY = CHECKOUT / "tests" / "unit" / "signing" / "vectors" / "es256.pub.pem"
# Run in the tree whose generator it is. Of that tree only the generator is used, so that old commits work too.
_GENERATE = """\
import sys
from pathlib import Path
from signing.key_files import load_public_key
from tee_replayer.generator.generate import generate
gpu, platform, key, out, *trees = sys.argv[1:]
bearssl, aws_lc = map(Path, trees)
trusted = load_public_key(Path(key).read_bytes())
try:
    from tee_replayer.crypto import Libraries
    crypto = {"libraries": Libraries(bearssl, aws_lc)}
except ImportError:  # older ones had BearSSL only
    crypto = {"bearssl": bearssl}
try:
    from tee_replayer.generator.options import Options
    from tee_replayer.generator.platforms import platform_of
except ImportError:  # older ones took all options one by one
    generate(gpu, platform, trusted, Path(out), **crypto)
else:
    generate(Options(gpu, platform_of(platform), trusted, **crypto), Path(out))
"""
# GCC's -fstack-usage: file:line:column:function, bytes, kind
_FRAME = re.compile(r"^.*:\d+:\d+:(\S+)\t(\d+)\t[\w,]+$", re.MULTILINE)


@dataclass
class Sizes:
    """Bytes of a firmware.

    Attributes:
        code, constants, data: by name; data is what can be written, without the stack.
        stack: frame of each function.
        flash: all that lies in flash, also what has no name (literals, assembly, padding).
    """

    code: Counter[str] = field(default_factory=Counter)
    constants: Counter[str] = field(default_factory=Counter)
    data: Counter[str] = field(default_factory=Counter)
    stack: dict[str, int] = field(default_factory=dict)
    flash: int = 0


@dataclass(frozen=True)
class Row:
    """One function or object: bytes and frame in both firmwares; None where there is none."""

    name: str
    kind: str
    bytes: tuple[int | None, int | None]
    stack: tuple[int | None, int | None]

    @property
    def is_changed(self) -> bool:
        """Whether the firmwares differ in it."""
        return self.bytes[0] != self.bytes[1] or self.stack[0] != self.stack[1]


def source_name(symbol: str) -> str:
    """Name in the source of a function that the compiler cloned, split or made local (`run.constprop.0`)."""
    return symbol.partition(".")[0]


def frames(text: str) -> dict[str, int]:
    """Function -> bytes of its frame, of the text of a .su file; of clones the largest."""
    found: dict[str, int] = {}
    for symbol, size in _FRAME.findall(text):
        name = source_name(symbol)
        found[name] = max(found.get(name, 0), int(size))
    return found


def sizes_of(folder: Path) -> Sizes:
    """Sizes of a compiled firmware with its .su files."""
    sizes = Sizes(stack=frames("".join(path.read_text() for path in sorted(folder.glob("*.su")))))
    with (folder / ELF).open("rb") as stream:
        elf = ELFFile(stream)
        sections = list(elf.iter_sections())
        for section in sections:
            flags = section["sh_flags"]
            if flags & SH_FLAGS.SHF_ALLOC and not flags & SH_FLAGS.SHF_WRITE:
                sizes.flash += section["sh_size"]
        for table in sections:
            if not isinstance(table, SymbolTableSection):
                continue
            for symbol in table.iter_symbols():
                kind, index = symbol["st_info"]["type"], symbol["st_shndx"]
                if not symbol["st_size"] or not isinstance(index, int):
                    continue
                name = source_name(symbol.name)
                if kind == "STT_FUNC":
                    sizes.code[name] += symbol["st_size"]
                elif kind == "STT_OBJECT":
                    flags = sections[index]["sh_flags"]
                    home = sizes.data if flags & SH_FLAGS.SHF_WRITE else sizes.constants
                    if flags & SH_FLAGS.SHF_ALLOC:
                        home[name] += symbol["st_size"]
    return sizes


def measure(tree: Path, gpu: str, platform: str, folder: Path) -> Sizes:
    """Generate and compile the firmware of a source tree.

    Args:
        tree: checkout, or a commit's files.
        gpu, platform: as for `gramophone generate`.
        folder: to work in.

    Raises:
        GramophoneError: it cannot be generated or compiled; the message is the program's own.
    """
    out = folder / "out"
    crypto = libraries.source()
    arguments = (gpu, platform, str(KEY), str(out), str(crypto.bearssl), str(crypto.aws_lc))
    _run([sys.executable, "-c", _GENERATE, *arguments], cwd=tree, PYTHONPATH=str(tree))
    _run(["make", "-s", f"-j{os.cpu_count() or 1}", f"CC={CROSS}gcc -fstack-usage"], cwd=out)
    return sizes_of(out)


def files_of(commit: str, folder: Path) -> str:
    """Write a commit's files to a folder; its short name. GramophoneError when there is no such commit."""
    name = _run(["git", "rev-parse", "--short", "--verify", f"{commit}^{{commit}}"], cwd=CHECKOUT).decode().strip()
    with tarfile.open(fileobj=io.BytesIO(_run(["git", "archive", name], cwd=CHECKOUT))) as archive:
        extract(archive, folder)
    return name


def _run(command: list[str], cwd: Path, **environment: str) -> bytes:
    try:
        done = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise GramophoneError(f"{command[0]} is not installed") from error
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise GramophoneError(f"{' '.join(command[:2])} failed: {words}")
    return done.stdout


def rows(old: Sizes, new: Sizes) -> list[Row]:
    """Every function and object of either, the largest differences first."""
    found = []
    for kind in ("code", "constants", "data"):
        before, after = getattr(old, kind), getattr(new, kind)
        for name in before.keys() | after.keys():
            stack = (old.stack.get(name), new.stack.get(name)) if kind == "code" else (None, None)
            found.append(Row(name, kind, (before.get(name), after.get(name)), stack))
    return sorted(found, key=lambda row: (-abs(_difference(row.bytes)), -abs(_difference(row.stack)), row.name))


def totals(old: Sizes, new: Sizes) -> dict[str, tuple[int, int]]:
    """Sums by title: (old, new)."""
    found = {}
    for title, kind in (("functions", "code"), ("constants", "constants"), ("writable data", "data")):
        found[title] = (getattr(old, kind).total(), getattr(new, kind).total())
    found["flash in all"] = (old.flash, new.flash)
    found["largest frame"] = (max(old.stack.values(), default=0), max(new.stack.values(), default=0))
    return found


def _difference(pair: tuple[int | None, int | None]) -> int:
    return (pair[1] or 0) - (pair[0] or 0)


def _cells(pair: tuple[int | None, int | None]) -> list[str]:
    """Before, after, difference; blank where there is none."""
    numbers = ["" if number is None else f"{number:,}" for number in pair]
    return [*numbers, f"{_difference(pair):+,}" if _difference(pair) else ""]


def _table(title: str, found: Iterable[Row]) -> Table:
    table = Table("name", title=title, title_justify="left", box=None, pad_edge=False)
    for head in ("code before", "after", "diff", "stack before", "after", "diff"):
        table.add_column(head, justify="right")
    for row in found:
        name = row.name if row.kind == "code" else f"{row.name} ({row.kind})"
        table.add_row(name, *_cells(row.bytes), *_cells(row.stack))
    return table


def main() -> int:
    """Print the table, or one JSON object; 0, or 2 when a firmware cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.size_diff", description=__doc__)
    parser.add_argument("--base", default="HEAD", help="commit to compare the working tree with; default: HEAD")
    parser.add_argument("--gpu", default="v3d42", help="GPU profile; default: v3d42")
    parser.add_argument("--platform", default="qemu-virt", help="bare-metal platform; default: qemu-virt")
    parser.add_argument("--all", action="store_true", help="also what does not differ")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = {name: Path(folder) / name for name in ("base", "old", "new")}
            for path in work.values():
                path.mkdir()
            base = files_of(options.base, work["base"])
            old = measure(work["base"], options.gpu, options.platform, work["old"])
            new = measure(CHECKOUT, options.gpu, options.platform, work["new"])
    except GramophoneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = [row for row in rows(old, new) if options.all or row.is_changed]
    sums = totals(old, new)
    if options.json:
        print(json.dumps({"base": base, "rows": [vars(row) for row in found], "totals": sums}))
        return 0
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    title = f"{options.gpu} on {options.platform}: {base} and the working tree, bytes"
    if found:
        console.print(_table(title, found))
    else:
        console.print(f"{title}: no function, constant or frame differs")
    table = Table("\ntotal", "\nbefore", "\nafter", "\ndiff", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, pair in sums.items():
        table.add_row(name, *_cells(pair))
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
