# SPDX-License-Identifier: BSD-2-Clause
"""From captures to raw traces."""
