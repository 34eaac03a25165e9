/* Lookups by object key, as other servers make them: a task is fetched once. For the mock. */
#ifndef KVC_TESTS_MOCK_SERVER_P2P_H
#define KVC_TESTS_MOCK_SERVER_P2P_H

#include <sys/queue.h>

#include "src/wire/types.h"
#include "tests/mock_server/store.h"

struct mock_p2p_task {
    LIST_ENTRY(mock_p2p_task) in_list;
    int64_t id;
    struct kvc_object_address *addresses;
    size_t count;
};

struct mock_p2p {
    LIST_HEAD(, mock_p2p_task) tasks;
    size_t count;
    int64_t last_id;
    struct mock_holder locks; /* of all tasks: P2P_UNLOCK_OBJECTS names objects, not tasks */
};

void mock_p2p_clear(struct mock_p2p *p2p);

#endif
