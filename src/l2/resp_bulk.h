/* The two ends of Redis' protocol where bytes are many: a SET sent from where its object lies, and the
 * reply to a GET received where its object belongs, neither by way of hiredis' buffers. For resp. */
#ifndef KVC_L2_RESP_BULK_H
#define KVC_L2_RESP_BULK_H

#include "src/base/bytes.h"

/* Bytes received and not used up. Zero-initialise for each connection. */
struct kvc_resp_input {
    char data[4096];
    size_t start, end;
};

/* Sends SET name value. KVC_ELOST: the connection is of no use any more. */
kvc_status kvc_resp_send_set(int socket, struct kvc_bytes name, struct kvc_bytes value,
                             struct kvc_error *err);
/* Receives the reply to a GET: *found false when there is no such object, else size bytes in data.
 * KVC_EREFUSED (the server's error) and KVC_EFORMAT (an object of another size, which is passed over)
 * leave a connection that goes on; KVC_ELOST (it ended, or what came is no reply) does not. */
kvc_status kvc_resp_receive_bulk(int socket, struct kvc_resp_input *input, uint8_t *data,
                                 size_t size, bool *found, struct kvc_error *err);

#endif
