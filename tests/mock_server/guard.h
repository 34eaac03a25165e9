/* Touching memory that somebody else can take away: a client that truncates a segment it has registered
 * must not take the mock with it. For what reads and writes workers' memory. */
#ifndef KVC_TESTS_MOCK_SERVER_GUARD_H
#define KVC_TESTS_MOCK_SERVER_GUARD_H

#include <stdbool.h>

/* Runs func(arg), and returns true; false when it touched a page that is not there any more, and was
 * given up at that point. func must not hold anything then that would have to be freed. */
bool mock_guard(void (*func)(void *arg), void *arg);
/* A defect: from now on nothing is guarded. */
void mock_guard_off(void);

#endif
