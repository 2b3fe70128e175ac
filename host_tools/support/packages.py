# SPDX-License-Identifier: BSD-2-Clause
"""Packages that commands import and that `pip install gramophone` does not bring: which extra has them."""

EXTRAS = {
    "ncnn": "record",
    "rich": "record",
    "unicorn": "unicorn",
    "capstone": "audit-firmware",
    "jinja2": "report",
    "markupsafe": "report",
    "click_man": "manual",
    "ai_edge_litert": "tflite",
}


def missing(error: ImportError) -> str | None:
    """What to say of a package that is not installed, with the command that installs it; None: it is another."""
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module not in EXTRAS:
        return None
    return sentence(module, EXTRAS[module])


def sentence(module: str, extra: str) -> str:
    """What to say of a module that an extra of pyproject.toml brings."""
    return f"{module} is missing: pip install 'gramophone[{extra}]'"
