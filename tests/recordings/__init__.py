# SPDX-License-Identifier: BSD-2-Clause
"""Tests on the public recordings, which are no part of the tree ($GRAMOPHONE_RECORDINGS): imports, passes, replays
of a Mali's networks, and register logs of the real drivers against the models.

Not in here: recordings of our own, which are small and lie in `tests/support`.

Read first: test_mali_networks.py
"""
