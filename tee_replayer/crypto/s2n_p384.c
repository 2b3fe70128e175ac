/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's ES384. */
#include "s2n_p384.h"

#include "s2n_ecdsa.h"
