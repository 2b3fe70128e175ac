# SPDX-License-Identifier: BSD-2-Clause
"""What users install: the wheel has every file and works without the checkout, and the newest versions of
dependencies do.

Not in here: metadata that needs no network (`tests/unit/project/test_metadata.py`).

Read first: test_wheel.py
"""
