# SPDX-License-Identifier: BSD-2-Clause
"""The Python API, without a virtual GPU."""
