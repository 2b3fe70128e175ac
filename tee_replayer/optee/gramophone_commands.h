/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that a build has, as rows of two tables: the pseudo-TA's and the TA's. What a build lacks is
 * refused by the first of the two that sees it. A row is the command, the types of its first two parameters,
 * and what does it in the pseudo-TA and in the TA. */
/* clang-format off */
#ifdef GRAMOPHONE_STREAMING
#define TRACE IN
#define ON_TRACE(command) command##_shared
#else
#define TRACE NONE
#define ON_TRACE(command) command
ROW(LOAD_BEGIN, VALUE, NONE, load_begin, invoke)
ROW(LOAD_DATA, IN, NONE, load_data, send)
#endif
ROW(LOAD, TRACE, NONE, ON_TRACE(verify_and_load), load)
ROW(DESCRIBE, VALUE, OUT, describe, query)
ROW(SET_INPUT, VALUE, IN, set_input, send)
ROW(RUN, TRACE, NONE, ON_TRACE(run), run)
ROW(GET_OUTPUT, VALUE, OUT, get_output, get_output)
ROW(UNLOAD, NONE, NONE, unload_command, invoke)
ROW(GET_LOG, OUT, NONE, get_log, query)
ROW(DESCRIBE_TRACE, OUT, NONE, describe_trace, query)
ROW(FORGET, NONE, NONE, forget, invoke)
#ifdef GRAMOPHONE_LOG
ROW(LOG_OPEN, IN, NONE, log_open, deny)
ROW(LOG_TAIL, OUT, NONE, log_tail, deny)
ROW(GET_ENTRIES, OUT, NONE, get_entries, get_entries)
#endif
#ifdef GRAMOPHONE_ATTEST
ROW(ATTEST_NONCE, IN, OUT, attest, attest)
ROW(DEVICE_KEY, OUT, NONE, device_key, query)
#endif
#ifdef GRAMOPHONE_TRUST
ROW(TRUST_VERSION, OUT, NONE, trust_version, deny)
#endif
#ifdef GRAMOPHONE_NETWORKS
ROW(CHOOSE, VALUE, NONE, choose, choose)
ROW(DESCRIBE_NETWORK, VALUE, OUT, describe_network, query)
#endif
#ifdef GRAMOPHONE_SCHEDULE
ROW(SUBMIT, VALUE, NONE, submit, invoke)
ROW(STEP, VALUE_OUT, NONE, step, step)
ROW(YIELD, NONE, NONE, yield, invoke)
#endif
