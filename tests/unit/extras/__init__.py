# SPDX-License-Identifier: BSD-2-Clause
"""The command line: each command as a user types it, and what all commands have in common."""
