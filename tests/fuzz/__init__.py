# SPDX-License-Identifier: BSD-2-Clause
"""Fuzzing of what reads an attacker's bytes (`make fuzz`), in C with libFuzzer and sanitizers, in Python with
Atheris or plain mutation; corpora, and tests that replay them.

Not in here: inputs that were built by hand to break a rule (`tests/support/hostile*.py`).

Read first: targets.py
"""
