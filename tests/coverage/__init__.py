# SPDX-License-Identifier: BSD-2-Clause
"""`make coverage`: lines and branches of Python and C that tests execute.

Not in here: limits: it prints a table.

Read first: __main__.py
"""
