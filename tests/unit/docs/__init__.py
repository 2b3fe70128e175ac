# SPDX-License-Identifier: BSD-2-Clause
"""What documents say: links, tests and figures they name, recipes they give."""
