# SPDX-License-Identifier: BSD-2-Clause
"""What pages of HTML share: templates in which every value is escaped, and hashes for the page's own policy."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trace_format.errors import printable


def environment(folder: Path) -> Environment:
    """For the templates of a folder: a value that is missing is an error, and what people cannot see is shown."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )


def policy_hash(text: str) -> str:
    """As Content-Security-Policy names a text that it allows."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _visible(value: object) -> object:
    """A value as the page shows it; what is markup already is left alone."""
    return value if isinstance(value, Markup) else printable(str(value))
