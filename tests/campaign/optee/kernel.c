/* SPDX-License-Identifier: BSD-2-Clause */
/* What OP-TEE's libraries need of its kernel: there is one thread, so locks are free; a panic is an
 * exception. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int trace_level;
const char trace_ext_prefix[] = "";

static _Noreturn void stop(void)
{
    for (;;)
        __asm__ volatile("brk #0");
}

/* Not in OP-TEE's headers under these types; the linker only needs the names. */
_Noreturn void __do_panic(const char *file, int line, const char *function, const char *message);
_Noreturn void _assert_break(void);
void _assert_log(const char *expression, const char *file, int line, const char *function);
void trace_ext_puts(const char *text);
int trace_ext_get_thread_id(void);
int trace_ext_get_core_id(void);
void mutex_init_recursive(void *mutex);
void mutex_lock(void *mutex);
void mutex_unlock(void *mutex);
void mutex_lock_recursive(void *mutex);
void mutex_unlock_recursive(void *mutex);
unsigned mutex_get_recursive_lock_depth(void *mutex);
uint32_t thread_get_exceptions(void);
uint32_t thread_mask_exceptions(uint32_t exceptions);
void thread_unmask_exceptions(uint32_t state);
void spinlock_count_incr(void);
void spinlock_count_decr(void);
unsigned __cpu_spin_trylock(unsigned *lock);
void __cpu_spin_unlock(unsigned *lock);
uint32_t thread_kernel_enable_vfp(void);
void thread_kernel_disable_vfp(uint32_t state);
uint32_t crypto_rng_read(void *buffer, size_t bytes);
uint32_t sm2_kdf(void);
uint32_t crypto_sm3_alloc_ctx(void);

void __do_panic(const char *file, int line, const char *function, const char *message)
{
    (void)file;
    (void)line;
    (void)function;
    (void)message;
    stop();
}

void _assert_break(void)
{
    stop();
}

void _assert_log(const char *expression, const char *file, int line, const char *function)
{
    (void)expression;
    (void)file;
    (void)line;
    (void)function;
}

void trace_ext_puts(const char *text)
{
    (void)text;
}

int trace_ext_get_thread_id(void)
{
    return 0;
}

int trace_ext_get_core_id(void)
{
    return 0;
}

void mutex_init_recursive(void *mutex)
{
    (void)mutex;
}

void mutex_lock(void *mutex)
{
    (void)mutex;
}

void mutex_unlock(void *mutex)
{
    (void)mutex;
}

/* The lock has one owner, who takes it once more or gives it back. */
static unsigned depth;

void mutex_lock_recursive(void *mutex)
{
    (void)mutex;
    depth++;
}

void mutex_unlock_recursive(void *mutex)
{
    (void)mutex;
    depth--;
}

unsigned mutex_get_recursive_lock_depth(void *mutex)
{
    (void)mutex;
    return depth;
}

/* All exceptions are masked, always (THREAD_EXCP_ALL). */
uint32_t thread_get_exceptions(void)
{
    return 7;
}

uint32_t thread_mask_exceptions(uint32_t exceptions)
{
    (void)exceptions;
    return 7;
}

void thread_unmask_exceptions(uint32_t state)
{
    (void)state;
}

void spinlock_count_incr(void) {}

void spinlock_count_decr(void) {}

unsigned __cpu_spin_trylock(unsigned *lock)
{
    (void)lock;
    return 0;
}

void __cpu_spin_unlock(unsigned *lock)
{
    (void)lock;
}

/* A verification needs no random numbers, SM2 or SM3. */
uint32_t thread_kernel_enable_vfp(void);
void thread_kernel_disable_vfp(uint32_t state);
uint32_t crypto_rng_read(void *buffer, size_t bytes)
{
    (void)buffer;
    (void)bytes;
    stop();
}

uint32_t sm2_kdf(void)
{
    stop();
}

uint32_t crypto_sm3_alloc_ctx(void)
{
    stop();
}

/* startup.S has enabled the SIMD registers. */
uint32_t thread_kernel_enable_vfp(void)
{
    return 0;
}

void thread_kernel_disable_vfp(uint32_t state)
{
    (void)state;
}
