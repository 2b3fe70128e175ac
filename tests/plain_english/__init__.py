# SPDX-License-Identifier: BSD-2-Clause
"""Patterns of English that are hard to read: a check of help, errors and the pages that a newcomer meets first.

Not in here: spelling and grammar, which the patterns do not know.

Read first: rules.py
"""
