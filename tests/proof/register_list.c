/* SPDX-License-Identifier: BSD-2-Clause */
/* What gr_find_register says of every register index and every access: index, access, bits, always. */
#include "shipped/check.c"
#include <stdio.h>

/* Of internal.h and the port; this program never runs what calls them. */
int main(void)
{
    for (uint32_t index = 0; index <= UINT16_MAX; index++)
        for (uint32_t access = 1; access <= 3; access++) {
            const struct gr_limits *row = gr_find_register(index, access);
            if (row)
                printf("%u %u %u %u\n", (unsigned)index, (unsigned)access, (unsigned)row->bits,
                       (unsigned)row->always);
        }
    return 0;
}
