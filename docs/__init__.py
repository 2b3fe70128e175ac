# SPDX-License-Identifier: BSD-2-Clause
"""The documents, and `examples`, which tests and `make` run in a checkout. Nothing of it is in the wheel."""
