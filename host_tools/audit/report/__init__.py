# SPDX-License-Identifier: BSD-2-Clause
"""The behaviour report of a trace: facts are gathered, put into words and places, and drawn as one HTML page, or
printed as PDF.

Not in here: findings, which come from the rules of the room above; the page only shows them.

Read first: facts.py
"""
