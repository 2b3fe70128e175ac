/* SPDX-License-Identifier: BSD-2-Clause */
/* A second core of the normal world, which changes a byte of shared memory as fast as it can. */
#ifndef RACING_H
#define RACING_H

#include "program.h"

void secure_call(uint64_t registers[8]);
void second_core(void);

#define PSCI_CPU_ON 0xc4000003u /* Arm DEN0022, 5.1.4 */
enum { WAIT_A_TRY = 10000, SECOND = 1 };

/* The second core's orders. */
static struct {
    uint8_t *volatile target; /* byte to change; NULL: rest */
    volatile uint32_t changes;
    volatile uint32_t resting;
} attack;

__asm__(".global second_core\n"
        "second_core:\n"
        "    ldr x0, =second_stack_end\n"
        "    mov sp, x0\n"
        "    b attack_for_ever\n"
        ".bss\n"
        ".balign 16\n"
        "    .space 4096\n"
        "second_stack_end:\n"
        ".text\n");

__attribute__((used, noreturn)) static void attack_for_ever(void) __asm__("attack_for_ever");
static void attack_for_ever(void)
{
    for (;;) {
        uint8_t *target = attack.target;
        attack.resting = !target;
        if (target) {
            *(volatile uint8_t *)target ^= 0xff;
            attack.changes++;
        }
    }
}

/* The attack goes on for a while before what is attacked begins, longer with each try: where one processor
 * emulates both cores in turn, the other one's turn would else never come in between. */
static void start_attack(uint8_t *target, uint32_t try)
{
    const uint32_t before = attack.changes;
    attack.target = target;
    while (attack.changes - before < 2)
        ;
    for (volatile uint32_t i = 0; i < try * WAIT_A_TRY; i++)
        ;
}

static void end_attack(void)
{
    attack.target = NULL;
    while (!attack.resting)
        ;
}

/* 0, or PSCI's error. */
static uint32_t start_second_core(void)
{
    uint64_t start[8] = {PSCI_CPU_ON, SECOND, (uintptr_t)second_core, 0};
    secure_call(start);
    return (uint32_t)start[0];
}

/* The program: `race` serves a request whose trace has at most so many bytes, and fills in `answer`. */
#define RACE(answer, race, most_bytes)                                                                       \
    int normal_world(void)                                                                                   \
    {                                                                                                        \
        struct mailbox_request request;                                                                      \
        memcpy(&request, mailbox(0), sizeof request);                                                        \
        if (!tee_start() || request.trace_bytes > (most_bytes))                                              \
            answer.result = TEE_CALL_FAILED;                                                                 \
        else                                                                                                 \
            race(&request);                                                                                  \
        answer.origin = tee_origin();                                                                        \
        leave(&answer, sizeof answer);                                                                       \
        return 0;                                                                                            \
    }                                                                                                        \
                                                                                                             \
    LEAVE_ON_EXCEPTION(answer)

#endif
