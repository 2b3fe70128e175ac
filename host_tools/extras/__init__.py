# SPDX-License-Identifier: BSD-2-Clause
"""What a model owner, firmware engineer or auditor can do without: an extra is a folder here, whose `__init__.py`
defines `EXTRA`, the table of what it adds to the command. Other people's packages add an `Extra` by an entry point
of the group `gramophone.extras`.

Not in here: the core, which imports no extra: an extra that is removed takes its commands with it.

Read first: ../support/extra.py
"""

from host_tools.support.extra import Extra, LazyCommand

__all__ = ["Extra", "LazyCommand"]
