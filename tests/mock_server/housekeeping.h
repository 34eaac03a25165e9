/* What a server does by itself as time passes. For the mock's loop. */
#ifndef KVC_TESTS_MOCK_SERVER_HOUSEKEEPING_H
#define KVC_TESTS_MOCK_SERVER_HOUSEKEEPING_H

#include "tests/mock_server/state.h"

enum { MOCK_SWEEP_MS = 1000 };

/* Evicts when the pool is rather full, ends sessions that are too old, drops workers that fell silent
 * (protocol.md 4.1, 4.5, 4.16). Meant for every MOCK_SWEEP_MS. */
void mock_sweep(struct mock *mock);
/* With --strict: what clients have left behind, at the end. */
void mock_account(struct mock *mock);

#endif
