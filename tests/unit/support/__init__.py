# SPDX-License-Identifier: BSD-2-Clause
"""Files, numbers and programs, as the host's tools use them."""
