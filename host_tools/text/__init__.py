# SPDX-License-Identifier: BSD-2-Clause
"""A trace as text: all of it, to be read, edited, and made into the same bytes again (docs/TEXT.md).

Not in here: single actions in words (`model/description.py`), and what differs between two traces
(`audit/compare.py`).

Read first: words.py
"""
