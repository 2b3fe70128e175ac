/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rollback store: for each name of a trace, and for the trust policy, the highest version under which a
 * trace was replayed, in flash that only this firmware reaches. It only grows, whenever the power is cut.
 *
 * Two banks, each erased as a whole. A bank is pairs of records; records are appended, and a pair's second
 * one is written when the first has been read back. So of a pair that was cut off the second record is blank,
 * and where both are there and neither is good, flash has lost something: then nothing is known any more.
 * When a bank is full, the highest versions are copied to the other, which counts from its BANK record on;
 * then the full one is erased. docs/adr/0057-rollback-store.md goes through the cuts.
 */
#ifndef GRAMOPHONE_STORE_API_H
#define GRAMOPHONE_STORE_API_H

#ifdef GRAMOPHONE_STORE

/* What outlives a reboot: the highest version of the trust policy, and of each name of a trace (64 bytes),
 * under which a trace was replayed. The core calls these, which the replayer's own store defines, or a port.
 * False: nothing can be kept. */
GR_API bool gr_store_open(void);
/* The policy's; UINT32_MAX: it is not known. */
GR_API uint32_t gr_store_least_policy(void);
/* ROLLBACK: a higher one is kept. STORE: that is not known, or there is no room for this name. */
GR_API enum gr_status gr_store_check(const uint8_t name[64], uint32_t version);
/* Keep those of the loaded trace, whose replay went well; STORE: they cannot be kept. */
GR_API enum gr_status gr_store_keep(struct gr_replayer *r);

/* The port: flash, of which bank 0 and 1 are GR_STORE_BANK_BYTES that can be erased without the other.
 * Offsets are multiples of a record's size, and so are sizes. Reading: false where flash says that what it
 * has is damaged. Programming: of bytes that are erased, never twice. Erasing: all bytes become 0xff. False:
 * it did not work; what flash holds is read again all the same. */
GR_API bool gr_port_flash_read(uint32_t bank, uint32_t offset, void *to, uint32_t bytes);
GR_API bool gr_port_flash_program(uint32_t bank, uint32_t offset, const void *from, uint32_t bytes);
GR_API bool gr_port_flash_erase(uint32_t bank);

#define GR_STORE_FIELDS bool is_kept; /* the loaded trace's versions are in the rollback store */

#else

#define GR_STORE_FIELDS

#endif

#endif
