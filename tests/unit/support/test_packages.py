# SPDX-License-Identifier: BSD-2-Clause
"""Packages that are missing: the sentence names the extra, and an extra of that name has the package."""

from __future__ import annotations

import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from host_tools.support.packages import EXTRAS, missing
from tests.support.places import CHECKOUT

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(("module", "extra"), EXTRAS.items())
def test_the_extra_has_the_package(module: str, extra: str) -> None:
    said = missing(ModuleNotFoundError(name=f"{module}.part"))
    assert said == f"{module} is missing: pip install 'gramophone[{extra}]'"
    packages = {canonicalize_name(name) for name in metadata.packages_distributions()[module]}
    of_the_extra = {canonicalize_name(Requirement(line).name) for line in PROJECT["optional-dependencies"][extra]}
    of_the_core = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert packages & of_the_extra
    assert not packages & of_the_core


def test_other_errors_of_imports_are_others() -> None:
    assert missing(ModuleNotFoundError(name="host_tools.nothing")) is None
    assert missing(ImportError(name="ncnn")) is None
