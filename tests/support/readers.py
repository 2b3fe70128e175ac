# SPDX-License-Identifier: BSD-2-Clause
"""Where shipped code opens files, by its syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import CHECKOUT

SHIPPED = ("trace_format", "signing", "host_tools", "tee_replayer", "baremetal")
# By the last name of what is called.
METHODS = {"read_bytes", "read_text", "open", "fdopen", "open_code", "fromfile", "memmap", "ZipFile", "TarFile"}
COPIES = {"copy", "copy2", "copyfile", "copytree"}  # of shutil
LOADS = {"load", "loadtxt", "genfromtxt"}  # of a parser that opens what it is given
PARSERS = {"json", "tomllib", "np", "numpy", "onnx", "pickle", "torch", "yaml", "cbor2", "marshal"}
STREAMS = {"open_regular", "BytesIO"}  # what they give may be read by anything


def sources() -> Iterator[Path]:
    """All modules of Python that users get, by their path in the tree."""
    for folder in SHIPPED:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            yield path.relative_to(CHECKOUT)


def opened(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.expr | None]]:
    """Calls that open a file, and that may read it; and the expression that names the file."""
    streams = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and _is_stream(item.context_expr, set())
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not (name := _opens(node)) or _writes(node, name):
            continue
        given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "fileobj")]
        if name not in ("read_bytes", "read_text") and any(_is_stream(one, streams) for one in given):
            continue
        yield node, _file(node)


def _is_stream(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in STREAMS
    return isinstance(node, ast.Name) and node.id in names


def _file(node: ast.Call) -> ast.expr | None:
    """Of a method the object, of a function the first argument."""
    modules = {"os", "io", "tarfile", "zipfile", "shutil", "gzip", *PARSERS}
    if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in modules:
        return node.func.value
    return node.args[0] if node.args else None


def _opens(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Name):
        return function.id if function.id in METHODS | COPIES - {"copy"} else ""
    if not isinstance(function, ast.Attribute):
        return ""
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    name = function.attr
    if name in METHODS or (name in COPIES and owner == "shutil"):
        return name
    return name if name in LOADS and owner in PARSERS else ""


def _writes(node: ast.Call, name: str) -> bool:
    """Whether the mode says that nothing is read; os.open has flags."""
    given = [*node.args, *(one.value for one in node.keywords if one.arg in ("mode", "flags"))]
    texts = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    modes = [text for text in texts if text and not set(text) - set("rwxabt+:|gz*")]
    flags = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and one.attr.startswith("O_")}
    if "O_WRONLY" in flags:
        return True
    return name in ("open", "fdopen", "ZipFile") and bool(modes) and modes[-1][0] in "wxa" and "+" not in modes[-1]


class Own:
    """What hangs on `__file__`, or on `importlib.resources`: files of the packages themselves."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[str, ast.expr | tuple[Path, str]]] = {}

    def has(self, path: Path, node: ast.expr) -> bool:
        """Whether an expression of a module names a file of a package."""
        if isinstance(node, ast.BinOp):
            return self.has(path, node.left)
        if isinstance(node, ast.Subscript | ast.Starred):
            return self.has(path, node.value)
        if isinstance(node, ast.Attribute):
            of_module = isinstance(node.value, ast.Name) and self._names(path).get(node.value.id)
            if isinstance(of_module, tuple) and of_module[1] == "":
                return self._has_name(of_module[0], node.attr)
            return self.has(path, node.value)
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) == "resources.files":
                return True
            return self.has(path, node.args[0] if ast.unparse(node.func) == "Path" and node.args else node.func)
        return isinstance(node, ast.Name) and self._has_name(path, node.id)

    def _has_name(self, path: Path, name: str) -> bool:
        if name == "__file__":
            return True
        found = self._names(path).get(name)
        if isinstance(found, tuple):
            return bool(found[1]) and self._has_name(*found)
        return found is not None and self.has(path, found)

    def _names(self, path: Path) -> dict[str, ast.expr | tuple[Path, str]]:
        """Constants of a module, and what it imports from ours: (module, name), "" for the module itself."""
        if path not in self._known:
            names: dict[str, ast.expr | tuple[Path, str]] = {}
            for node in ast.parse((CHECKOUT / path).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    names[node.targets[0].id] = node.value
                if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in SHIPPED:
                    for one in node.names:
                        names[one.asname or one.name] = _imported(node.module, one.name)
            self._known[path] = names
        return self._known[path]


def _imported(module: str, name: str) -> tuple[Path, str]:
    """Where a name comes from: a module of a package, or what one defines."""
    folder = Path(*module.split("."))
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if (CHECKOUT / path).exists():
            return path, ""
    own = folder.with_suffix(".py")
    return own if (CHECKOUT / own).exists() else folder / "__init__.py", name
