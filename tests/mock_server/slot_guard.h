/* With --strict: whether clients write what they were given to write in the pool, and nothing else. A slot
 * is filled with a pattern before it is handed out, a page before and behind it as well; what is
 * published is remembered by a sum. For the mock's store and handlers; without a guarded pool nothing
 * happens. */
#ifndef KVC_TESTS_MOCK_SERVER_SLOT_GUARD_H
#define KVC_TESTS_MOCK_SERVER_SLOT_GUARD_H

#include "tests/mock_server/state.h"

/* Guards the pool from now on; only before anything is in it. */
void mock_slots_guard(struct mock_pool *pool);
/* A new object's slot is filled; a published one's bytes are summed. */
void mock_slot_arm(const struct mock_store *store, const struct mock_object *object);
void mock_slot_seal(const struct mock_store *store, struct mock_object *object);
/* Says what is wrong with a slot that is being committed. */
void mock_slot_check_written(const struct mock_call *call, const struct mock_object *object);
/* Says that a published object, or the pages around it, have changed since; once. */
void mock_slot_verify(const struct mock *mock, struct mock_object *object);
void mock_slots_verify_all(const struct mock *mock);

#endif
