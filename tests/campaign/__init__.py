# SPDX-License-Identifier: BSD-2-Clause
"""The fault-injection campaign (`make campaign`): instructions of verification and loading are skipped or changed,
on both GPUs; docs/TESTING.md has what counts as a finding.

Not in here: the sample of it that runs with each test run (`tests/emulated/test_fault_injection.py`).

Read first: campaign.py
"""
