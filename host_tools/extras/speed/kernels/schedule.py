# SPDX-License-Identifier: BSD-2-Clause
"""tinygrad as a compiler for a search: as `record.compiled.schedule`, with the kernels that were chosen.

Run as a program, in a sandbox: `python -m host_tools.extras.speed.kernels.schedule [--wide] MODEL.onnx PLAN
FOLDER`.
In the folder are the optimisations that were chosen (candidates.CHOSEN), and into it go the kernels
(candidates.KERNELS, DESCRIBED).
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from host_tools.record.compiled import schedule  # first: it sets what tinygrad reads when it is imported

# isort: split
from tinygrad.codegen import to_program
from tinygrad.codegen.opt import heuristic
from tinygrad.uop.ops import Ops, UOp

from host_tools.extras.speed.kernels import candidates, convolution
from host_tools.record.compiled.compilers import program_of
from host_tools.record.compiled.glsl import Glsl
from host_tools.record.compiled.plan import Plan
from host_tools.support import plain
from trace_format.files import read_file


class Choices:
    """Optimisations that a search chose, by the key of a kernel; and the kernels that a plan has.

    Args:
        folder: where the former are, and the latter go.
        renderer: writes the kernels' code, and their candidates'.
    """

    def __init__(self, folder: Path, renderer: Glsl) -> None:
        self.folder, self.renderer = folder, renderer
        chosen = folder / candidates.CHOSEN
        self.opts: dict[str, candidates.Opts] = {}
        if chosen.exists():
            self.opts = plain.loads(dict[str, candidates.Opts], read_file(chosen))
        self.asts: dict[str, UOp] = {}
        self.kernels: dict[str, candidates.Kernel] = {}

    def program(self, ast: UOp, number: int) -> UOp:
        """A kernel of the plan's call `number`, as tinygrad's `to_program` makes it, with what was chosen."""
        key = ast.key.hex()
        if key in self.kernels:
            self.kernels[key].calls.append(number)
        if opts := self.opts.get(key):
            return to_program(
                ast.replace(arg=replace(ast.arg, opts_to_apply=candidates.read(opts))), self.renderer
            )
        seen: list[Any] = []
        kept = heuristic.hand_coded_optimizations

        def spy(kernel: Any) -> Any:
            nest = candidates.nest_of(kernel)
            made = kept(kernel)
            seen.append((nest, candidates.written(made.applied_opts)))
            return made

        heuristic.hand_coded_optimizations = spy
        try:
            made = to_program(ast, self.renderer)
        finally:
            heuristic.hand_coded_optimizations = kept
        if key not in self.kernels:
            nest, opts = seen[0] if len(seen) == 1 else (None, [])
            if list(made.arg.globals) != list(range(len(made.arg.globals))):
                nest = None
            params = {part.arg.slot: part.arg.dtype for part in ast.toposort() if part.op is Ops.PARAM}
            types = [schedule.numpy_name(params[at]) if at in params else "" for at in made.arg.globals]
            self.asts[key] = ast
            name = schedule.plain_name(made.arg.name)
            self.kernels[key] = candidates.Kernel(key, name, [number], opts, nest, types)
        return made

    def write(self) -> None:
        """The plan's kernels, for a search."""
        (self.folder / candidates.KERNELS).write_bytes(pickle.dumps((self.asts, self.renderer.wide)))
        (self.folder / candidates.DESCRIBED).write_bytes(plain.dumps(list(self.kernels.values())))


def compiled(model: Path, folder: Path, *, wide: bool = False) -> Plan:
    """The plan of a network, with tensors laid out for a search.

    Args:
        model: an ONNX file with weights inside and shapes fixed.
        folder: the search's.
        wide: kernels load and store vectors (`Family.loads_vectors`).

    Raises:
        NotImplementedError, RuntimeError and others of tinygrad's: what it does not compile.
    """
    choices = Choices(folder, Glsl(wide))
    plan = schedule.compiled(model, wide=wide, more=convolution.OPERATORS, program=choices.program)
    choices.write()
    return plan


if __name__ == "__main__":
    sys.exit(program_of(compiled))
