/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the core checks and runs the operators on the CPU. */
#ifndef GRAMOPHONE_OPERATORS_H
#define GRAMOPHONE_OPERATORS_H

#ifdef GRAMOPHONE_OPERATORS

/* Whether an action's operands are what its operator takes, and the actions around it let it work; computing,
 * once no job runs, or beside the one that does. */
GR_INTERNAL enum gr_status gr_check_operator(const struct gr_replayer *r, const struct gr_action *a,
                                             uint32_t index);
GR_INTERNAL enum gr_status gr_operate(struct gr_replayer *r, const struct gr_action *a);

#else

#define gr_check_operator(r, a, index) GR_STATUS_OK /* its opcode is unknown */
#define gr_operate(r, a) GR_STATUS_OK

#endif

#endif
