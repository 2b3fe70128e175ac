# SPDX-License-Identifier: BSD-2-Clause
"""What tinygrad raises, as what users are told: at which node or kernel it ends, and why, in words of ours.

tinygrad raises whatever its code meets: a KeyError for a name, an AssertionError without a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

from host_tools.record.compiled.compilers import compiling
from trace_format import limits
from trace_format.files import read_file

OURS = "host_tools."


class _Watched(tuple[Any, ...]):
    """A graph's nodes, of which it is known which one was taken last."""

    last: Any = None
    values: Mapping[str, Any]

    def __iter__(self) -> Iterator[Any]:
        for node in super().__iter__():
            self.last = node
            yield node
            for name in node.outputs:  # shapes that do not fit are found when somebody asks
                getattr(self.values.get(name), "shape", None)


@contextmanager
def saying_where(runner: OnnxRunner, model: Path) -> Iterator[None]:
    """Name the node that the front end is at when it fails.

    Args:
        runner: it computes the graph within.
        model: the graph's file.

    Raises:
        NotImplementedError: in place of whatever is raised.
    """
    nodes = runner.graph_nodes = _Watched(runner.graph_nodes)
    nodes.values = runner.graph_values
    try:
        yield
    except Exception as error:
        node = nodes.last
        if node is None:
            raise
        of = ", ".join(_shape(runner.graph_values.get(name)) for name in node.inputs if name)
        raise NotImplementedError(
            f"node {_name(model, node.outputs[0])} ({node.op}): {_words(error, f'with inputs {of}')}"
        ) from error


@contextmanager
def saying_which(number: int, total: int) -> Iterator[None]:
    """Name the kernel that is not made, by its number of so many; raises as `saying_where`."""
    compiling(number, total)
    try:
        yield
    except Exception as error:
        raise NotImplementedError(f"kernel {number + 1} of {total}: {_words(error, 'as it is')}") from error


def _words(error: Exception, how: str) -> str:
    """Why it fails: our own words as they are, tinygrad's not."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    raised_in = at.tb_frame.f_globals.get("__name__", "") if at else ""
    if isinstance(error, NotImplementedError) and str(error):
        if raised_in.startswith(OURS):
            return str(error)
        if "is not supported" in str(error):
            return "there is no such operator"
    return f"it has no code for it {how}"


def _name(model: Path, output: str) -> str:
    """Name of the node that makes a value; tinygrad does not keep it."""
    import onnx  # only where something is wrong

    for node in onnx.load_model_from_string(read_file(model, limits.MODEL_BYTES)).graph.node:
        if output in node.output and node.name:
            return str(node.name)
    return output


def _shape(value: Any) -> str:
    """Element type and shape, as in float32[1, 4]."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('dtypes.')}[{', '.join(map(str, value.shape))}]"
    return "none" if value is None else "a sequence"
