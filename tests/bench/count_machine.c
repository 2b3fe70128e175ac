/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions that the whole machine executes, user space and kernel, from before a command starts until it
 * has ended:
 *
 *   count_machine FILE COMMAND...    (the number goes to FILE; the exit status is the command's)
 *
 * For a machine with one core. Facts: perf_event_open(2).
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct perf_event_attr event = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof event, .config = PERF_COUNT_HW_INSTRUCTIONS};
    uint64_t before, after;
    int status = 0;
    const int counter = argc < 3 ? -1 : (int)syscall(SYS_perf_event_open, &event, -1, 0, -1, 0);
    if (counter < 0 || read(counter, &before, sizeof before) != sizeof before) {
        perror("count_machine");
        return 2;
    }
    const pid_t child = fork();
    if (!child) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child ||
        read(counter, &after, sizeof after) != sizeof after) {
        perror("count_machine");
        return 2;
    }
    FILE *file = fopen(argv[1], "w");
    if (!file || fprintf(file, "%llu\n", (unsigned long long)(after - before)) < 0 || fclose(file))
        return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
