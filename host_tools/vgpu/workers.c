/* SPDX-License-Identifier: BSD-2-Clause */
#include "workers.h"

#include <pthread.h>
#include <unistd.h>

struct share {
    struct vgpu_work *work;
    void *worker;
};

static void note_failure(struct vgpu_work *work, uint64_t item)
{
    uint64_t lowest = __atomic_load_n(&work->failed, __ATOMIC_RELAXED);

    while (item < lowest && !__atomic_compare_exchange_n(&work->failed, &lowest, item, false,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void *run_share(void *argument)
{
    const struct share *share = argument;
    struct vgpu_work *work = share->work;

    for (;;) {
        uint64_t item = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);

        if (item >= work->count || item > __atomic_load_n(&work->failed, __ATOMIC_RELAXED))
            return NULL;
        if (!work->run(share->worker, item)) {
            note_failure(work, item);
            return NULL;
        }
    }
}

void vgpu_work_run(struct vgpu_work *work, void *const *workers, unsigned count)
{
    pthread_t ids[VGPU_MAX_WORKERS];
    struct share shares[VGPU_MAX_WORKERS] = {{work, workers[0]}};
    bool started[VGPU_MAX_WORKERS] = {false};

    for (unsigned i = 1; i < count; i++) { /* what does not start leaves its share to the others */
        shares[i] = (struct share){work, workers[i]};
        started[i] = pthread_create(&ids[i], NULL, run_share, &shares[i]) == 0;
    }
    run_share(&shares[0]);
    for (unsigned i = 1; i < count; i++)
        if (started[i])
            pthread_join(ids[i], NULL);
}

unsigned vgpu_worker_threads(const struct vgpu_options *options)
{
    long cores = options->threads ? (long)options->threads : sysconf(_SC_NPROCESSORS_ONLN);

    if (options->track_access || options->meter || cores < 1)
        return 1; /* the access map is kept by the calling thread, and the meter's caches see one order */
    return cores < VGPU_MAX_WORKERS ? (unsigned)cores : VGPU_MAX_WORKERS;
}
