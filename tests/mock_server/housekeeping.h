/* What a server does by itself as time passes. For the mock's loop. */
#ifndef KVC_TESTS_MOCK_SERVER_HOUSEKEEPING_H
#define KVC_TESTS_MOCK_SERVER_HOUSEKEEPING_H

#include "tests/mock_server/state.h"

/* Brings the mock up to the time that it is: stores become visible, leases run out; once a second it
 * evicts when the pool is rather full, ends sessions that are too old, and drops workers that fell
 * silent (protocol.md 4.1, 4.5, 4.16). Sets now_ms, and next_sweep_ms for when it must be called again. */
void mock_pass_time(struct mock *mock);
/* With --strict: what clients have left behind, at the end. */
void mock_account(struct mock *mock);

#endif
