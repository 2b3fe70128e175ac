/* SPDX-License-Identifier: BSD-2-Clause */
/* Port for QEMU's machine "virt" (and Unicorn with the same map) at EL3: the GPU is on, the
 * end leaves the emulator. */
#include "port.h"

enum { SEMIHOSTING_EXIT = 0x18, SEMIHOSTING_EXIT_APPLICATION = 0x20026 };

uint32_t gr_port_read32(uint32_t offset)
{
    return gr_gpu_read(offset);
}

__attribute__((noinline)) void gr_port_write32(uint32_t offset, uint32_t value)
{
    gr_gpu_write(offset, value);
}

void gr_board_start(void) {}

uint32_t gr_board_gpu_on(void)
{
    return 0;
}

uint32_t gr_board_gpu_off(void)
{
    return 0;
}

void gr_board_end(uint32_t exit_status)
{
    const uint64_t block[] = {SEMIHOSTING_EXIT_APPLICATION, exit_status};
    register uint64_t operation __asm__("x0") = SEMIHOSTING_EXIT;
    register const uint64_t *parameter __asm__("x1") = block;
    __asm__ volatile("hlt #0xf000" ::"r"(operation), "r"(parameter) : "memory");
}

#ifdef GRAMOPHONE_SECRET
/* The emulated board keeps its secret and its log's tail in files beside the emulator, by semihosting (Arm
 * "Semihosting for AArch32 and AArch64", 2.0). NOTHING KEEPS THEM SECRET, nor from being put back: this is
 * for development and tests, as the rest of this board is. */
enum { SYS_OPEN = 1, SYS_CLOSE = 2, SYS_WRITE = 5, SYS_READ = 6, MODE_READ = 1, MODE_WRITE = 5 };

static int64_t semihosting(uint64_t operation, const uint64_t *block)
{
    register uint64_t number __asm__("x0") = operation;
    register const uint64_t *parameter __asm__("x1") = block;
    __asm__ volatile("hlt #0xf000" : "+r"(number) : "r"(parameter) : "memory");
    return (int64_t)number;
}

/* Read or write a whole file of this size; false when it is shorter, or there is none. */
static bool transfer(const char *name, uint64_t name_bytes, uint64_t operation, void *data, uint64_t bytes)
{
    const uint64_t open[] = {(uintptr_t)name, operation == SYS_READ ? MODE_READ : MODE_WRITE, name_bytes};
    const int64_t file = semihosting(SYS_OPEN, open);
    if (file == -1)
        return false;
    const uint64_t move[] = {(uint64_t)file, (uintptr_t)data, bytes}, close[] = {(uint64_t)file};
    const int64_t left = semihosting(operation, move);
    return semihosting(SYS_CLOSE, close) == 0 && left == 0;
}
#define TRANSFER(name, operation, data) transfer(name, sizeof(name) - 1, operation, data, sizeof *(data))

bool gr_board_secret(uint8_t secret[32])
{
    return transfer("device.secret", sizeof("device.secret") - 1, SYS_READ, secret, 32);
}

#endif

#ifdef GRAMOPHONE_LOG
bool gr_board_start_log(struct gr_log_tail *tail)
{
    uint64_t boots = 0;
    if (!TRANSFER("device.tail", SYS_READ, tail))
        *tail = (struct gr_log_tail){0};
    if (!TRANSFER("device.boots", SYS_READ, &boots))
        boots = 0;
    tail->boots = ++boots;
    return TRANSFER("device.boots", SYS_WRITE, &boots);
}

bool gr_board_keep_tail(const struct gr_log_tail *tail)
{
    struct gr_log_tail kept = *tail;
    return TRANSFER("device.tail", SYS_WRITE, &kept);
}
#endif

#ifdef GRAMOPHONE_CLOCK
/* The machine's PL031 (Arm DDI 0224C, 3.3.1): RTCDR, seconds since 1970. THE NORMAL WORLD CAN SET IT: this is
 * for development and tests. */
uint64_t gr_port_utc_s(void)
{
    return *gr_word(GR_RTC_BASE);
}
#endif

#ifdef GRAMOPHONE_STORE
/* The rollback store lies in the machine's second flash, two sectors of 256 KiB: a NOR flash with the
 * commands of Intel's (CFI "Common Flash Memory Interface" 2.0, command set 0001; QEMU
 * hw/block/pflash_cfi01.c), two chips of 16 bits side by side. THE NORMAL WORLD REACHES IT, TOO: this is for
 * development and tests. */
enum {
    BANK_BYTES = GR_STORE_BYTES / GR_STORE_BANKS,
    FLASH_TIMEOUT_US = 1000000,
    FLASH_READ = 0x00ff00ff, /* each command and answer is there twice */
    FLASH_PROGRAM = 0x00400040,
    FLASH_ERASE = 0x00200020,
    FLASH_ERASE_CONFIRM = 0x00d000d0,
    FLASH_CLEAR_STATUS = 0x00500050,
    FLASH_READY = 0x00800080,
    FLASH_FAILED = 0x003a003a, /* erase, program, voltage, lock */
};
_Static_assert(BANK_BYTES >= (int)GR_STORE_BANK_BYTES, "a bank lies in a sector");

/* After a command and its confirmation, or a word: whether it worked; memory can be read then. */
static bool flash_end(uint64_t address)
{
    const bool is_ready = gr_port_wait_word(address, FLASH_READY, FLASH_READY, FLASH_TIMEOUT_US);
    const bool has_failed = *gr_word(address) & FLASH_FAILED;
    *gr_word(address) = FLASH_CLEAR_STATUS;
    *gr_word(address) = FLASH_READ;
    return is_ready && !has_failed;
}

static uint64_t flash_at(uint32_t bank, uint32_t offset)
{
    return GR_STORE_BASE + bank * (uint64_t)BANK_BYTES + offset;
}

bool gr_port_flash_read(uint32_t bank, uint32_t offset, void *to, uint32_t bytes)
{
    uint32_t *const words = to;
    if (bank >= GR_STORE_BANKS || offset > GR_STORE_BANK_BYTES || bytes > GR_STORE_BANK_BYTES - offset)
        return false;
    for (uint32_t i = 0; i < bytes / 4; i++)
        words[i] = *gr_word(flash_at(bank, offset + 4 * i));
    return true;
}

bool gr_port_flash_program(uint32_t bank, uint32_t offset, const void *from, uint32_t bytes)
{
    const uint32_t *const words = from;
    if (bank >= GR_STORE_BANKS || offset > GR_STORE_BANK_BYTES || bytes > GR_STORE_BANK_BYTES - offset)
        return false;
    for (uint32_t i = 0; i < bytes / 4; i++) {
        const uint64_t address = flash_at(bank, offset + 4 * i);
        *gr_word(address) = FLASH_PROGRAM;
        *gr_word(address) = words[i];
        if (!flash_end(address))
            return false;
    }
    return true;
}

bool gr_port_flash_erase(uint32_t bank)
{
    if (bank >= GR_STORE_BANKS)
        return false;
    *gr_word(flash_at(bank, 0)) = FLASH_ERASE;
    *gr_word(flash_at(bank, 0)) = FLASH_ERASE_CONFIRM;
    return flash_end(flash_at(bank, 0));
}
#endif
