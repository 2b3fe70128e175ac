# SPDX-License-Identifier: BSD-2-Clause
"""The fault-injection campaign: see docs/TESTING.md."""
