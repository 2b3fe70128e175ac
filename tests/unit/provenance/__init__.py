# SPDX-License-Identifier: BSD-2-Clause
"""Statements, manifests and repositories that go with signed traces."""
