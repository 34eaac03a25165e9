/* A mock in a child process of a test. */
#ifndef KVC_TESTS_UNIT_MOCK_CHILD_H
#define KVC_TESTS_UNIT_MOCK_CHILD_H

#include "src/driver/rpc.h"
#include "tests/mock_server/mock.h"

struct child {
    int pid;
    int stop_fd;
    char rpc_url[128];
    char http_url[128];
    struct kvc_client *client;
    struct kvc_rpc rpc;
    const char *stderr_path; /* where its stderr goes; NULL: the test's */
};

/* Starts it (bind, http, ready_fd and stop_fd of the options are filled in; a dialect of NULL is the
 * newest) and connects to it; ends the test when that fails. */
void child_start(struct child *child, struct kvc_mock_options options);
/* Stops it by closing its stop_fd, and returns its exit status: 0 when kvc_mock_run returned KVC_OK. */
int child_stop(struct child *child);

#endif
