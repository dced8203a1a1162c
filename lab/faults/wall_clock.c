/* A wall clock of its own for one process: loaded before its libraries (LD_PRELOAD), it adds to every
 * reading of the real-time clock the nanoseconds that stand in the file LAB_CLOCK_FILE, as they are
 * at that moment. Clocks that only go on are left alone, as a step of the machine's clock does.
 * A wait until a moment of the wall clock is told by how long it lasts when it is begun.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
/* No uptime is as long, and no wall clock shows less. */
#define WALL_S_MIN 1000000000LL

static const volatile int64_t *step;

__attribute__((constructor)) static void find_step(void) {
    const char *path = getenv("LAB_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    if (seen == MAP_FAILED)
        abort();
    close(file);
    step = seen;
}

static int64_t ahead(void) { return step ? __atomic_load_n(step, __ATOMIC_RELAXED) : 0; }

static void move(struct timespec *at, int64_t nanoseconds) {
    int64_t sum = at->tv_sec * SECOND + at->tv_nsec + nanoseconds;
    at->tv_sec = sum / SECOND;
    at->tv_nsec = sum % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        move(at, ahead());
    return failed;
}

int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0)
        return -1;
    at->tv_sec = exact.tv_sec;
    at->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at)
        *at = exact.tv_sec;
    return exact.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec moved = *until;
    if (until->tv_sec < WALL_S_MIN)
        return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
    move(&moved, -ahead());
    return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &moved);
}

/* The C library's own are the same objects under other names. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                  const struct timespec *restrict until) {
    int failed = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return failed == 0 ? thrd_success : failed == ETIMEDOUT ? thrd_timedout : thrd_error;
}
