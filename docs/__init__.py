# SPDX-License-Identifier: BSD-2-Clause
"""The documents, and what `make` makes for them; `examples`, which tests and `make` run. None of it is in the wheel."""
