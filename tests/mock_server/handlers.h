/* The handlers of the operations, by family; dispatch.c has the table. For dispatch.c. */
#ifndef KVC_TESTS_MOCK_SERVER_HANDLERS_H
#define KVC_TESTS_MOCK_SERVER_HANDLERS_H

#include "tests/mock_server/state.h"

/* registration.c */
mock_handler mock_on_register_engine_driven;
mock_handler mock_on_register_kv_cache;
mock_handler mock_on_unregister_engine_driven;
mock_handler mock_on_unregister_kv_cache;

/* lookup.c */
mock_handler mock_on_lookup;
mock_handler mock_on_query_status;
mock_handler mock_on_query_hits;
mock_handler mock_on_wait_status;
mock_handler mock_on_free_locks;
mock_handler mock_on_end_session;

/* engine_driven.c */
mock_handler mock_on_prepare_store;
mock_handler mock_on_commit_store;
mock_handler mock_on_prepare_retrieve;
mock_handler mock_on_commit_retrieve;

/* lmcache_driven.c */
mock_handler mock_on_store;
mock_handler mock_on_retrieve;

/* control.c */
mock_handler mock_on_noop;
mock_handler mock_on_ping;
mock_handler mock_on_chunk_size;
mock_handler mock_on_clear;
mock_handler mock_on_report_blocks;
mock_handler mock_on_experimental;

/* p2p.c */
mock_handler mock_on_p2p_lookup;
mock_handler mock_on_p2p_query;
mock_handler mock_on_p2p_unlock;

#endif
