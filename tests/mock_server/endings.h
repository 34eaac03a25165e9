/* Defects that end the request loop: by a message, or by a peer that never gets as far as one. For
 * dispatch.c and mock.c. */
#ifndef KVC_TESTS_MOCK_SERVER_ENDINGS_H
#define KVC_TESTS_MOCK_SERVER_ENDINGS_H

#include "src/link/server.h"
#include "tests/mock_server/state.h"

/* Prepares what the defects that are on need of the server's socket. */
void mock_endings_open(const struct mock *mock, struct kvc_server *server);
void mock_endings_clear(struct mock_endings *endings);

/* Ends the loop if a message is one that must not be sent. */
void mock_end_by_message(struct mock *mock, struct kvc_bytes identity,
                         const struct kvc_frames *frames);
/* The same for a request that cannot be read. */
void mock_end_by_bad_payload(struct mock *mock, const struct kvc_error *err);
/* The same for connections that do not get on. */
void mock_end_by_peers(struct mock *mock, struct kvc_server *server);

#endif
