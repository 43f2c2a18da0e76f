/* fake_names.h - a program that links this has its own getaddrinfo(), so that a name means what a test needs:
 *
 *   one.test uno.test   127.0.0.1
 *   many.test           four addresses, 127.0.0.1 is the last
 *   refused.test        two, neither of which is the server's
 *   moves.test          127.0.0.1, or 127.0.0.2 after fake_moved
 *   stuck.test          nothing, and only after a sem_post(&fake_stuck)
 *   any other           not found */
#ifndef TESTS_FAKE_NAMES_H
#define TESTS_FAKE_NAMES_H

#include <semaphore.h>
#include <stdatomic.h>

extern atomic_uint fake_lookups;
extern atomic_uint fake_moved;
extern sem_t fake_stuck;

#endif
