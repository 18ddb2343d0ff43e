// A monotonic clock that runs 20 times as fast, preloaded into zdb: at its end zdb spins until no block that it has
// read ahead is younger than six seconds, which would be most of the time that it takes for a test's pool.
// Waits with a deadline are by the real-time clock, which stays as it is.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  static const long long second_ns = 1000000000, times = 20;
  static long long start_ns;
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (failed || clock != CLOCK_MONOTONIC) return failed;
  long long now_ns = now->tv_sec * second_ns + now->tv_nsec, none = 0;
  __atomic_compare_exchange_n(&start_ns, &none, now_ns, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  now_ns = start_ns + (now_ns - start_ns) * times;
  now->tv_sec = now_ns / second_ns;
  now->tv_nsec = now_ns % second_ns;
  return 0;
}
