# SPDX-License-Identifier: BSD-2-Clause
"""The documents, how their site and pictures are made, and `examples`, which tests and `make` run.

Nothing of it is in the wheel.
"""
