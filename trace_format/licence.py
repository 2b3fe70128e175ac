# SPDX-License-Identifier: BSD-2-Clause
"""The lines about licence and rights in files that the project's programs write."""

# In two parts, so that programs that collect such lines do not take this one for one.
SPDX = "SPDX-License-" + "Identifier: BSD-2-Clause"
COPYRIGHT = "Copyright (c) 2026 The Gramophone authors"
