# SPDX-License-Identifier: BSD-2-Clause
"""What the host knows of single GPU families."""
