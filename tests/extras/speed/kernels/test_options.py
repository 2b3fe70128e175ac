# SPDX-License-Identifier: BSD-2-Clause
"""Options of `record onnx` that search for kernels: what they ask for, and what they require."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.speed.kernels.options import searched_kernels
from host_tools.extras.speed.kernels.search import SearchedKernels
from host_tools.record.compiled.compilers import Compiler, Kernels
from host_tools.record.preflight import NetworkError


def test_what_is_asked_for(tmp_path: Path) -> None:
    assert searched_kernels(None, None, None) is None
    found: Kernels | None = searched_kernels(5, 9.2, tmp_path / "plot.csv")
    assert found is not None
    assert found.option == "--search"
    # What `--if-changed` compares: where the plot goes makes no other recording.
    assert repr(found) == "SearchedKernels(minutes=5, rounds=None, cpu_gflops=9.2)"


@pytest.mark.parametrize("option", ["--co-execute 9.2", "--search-plot plot.svg"])
@pytest.mark.parametrize("command", ["onnx net.onnx", "pytorch net.pt2"])
def test_what_requires_a_search(option: str, command: str) -> None:
    result = CliRunner().invoke(main, prog_name="gramophone", args=f"record {command} {option} -o net.gtr".split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {option.split()[0]} requires --search (see 'gramophone record ")


def test_another_compiler() -> None:
    where: dict[str, Any] = {"wide": False, "gpu": "v3d42", "timeout": 1, "snapshot": ""}
    with pytest.raises(NetworkError, match="--search: only tinygrad compiles other kernels, not toy"):
        SearchedKernels(1).planned(Compiler("toy", "toy"), b"", **where)
