/* Opening a DEALER and watching its connection. For client.c only. */
#ifndef KVC_LINK_CONNECT_H
#define KVC_LINK_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/error.h"

struct kvc_connection {
    void *socket;
    void *monitor; /* tells what becomes of the connection */
    int socket_fd; /* see kvc_socket_fd */
    int monitor_fd;
};

/* See kvc_client_open. On failure nothing is open. */
kvc_status kvc_connection_open(const char *url, int64_t timeout_ms,
                               struct kvc_connection *connection, struct kvc_error *err);
/* Never blocks; what is unsent is dropped. */
void kvc_connection_close(struct kvc_connection *connection);
/* Reads the monitor's news; true once the peer is gone. */
bool kvc_connection_is_lost(struct kvc_connection *connection);

#endif
