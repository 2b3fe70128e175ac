/* SPDX-License-Identifier: BSD-2-Clause */
/* Entry points for what v3d_qpu_vec.h computes in another way for each instruction set. */
#include "v3d_qpu_vec.h"

unsigned lanes_mask_bits(const qpu_i32 *mask)
{
    return qpu_mask_bits(*mask);
}

bool lanes_any(const qpu_u32 *v)
{
    return qpu_any(*v);
}
