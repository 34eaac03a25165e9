/* Payloads that the servers' own encoders wrote (protocol.md 3.1), in hex. */
#ifndef KVC_TESTS_UNIT_WIRE_GOLDEN_KEYS_H
#define KVC_TESTS_UNIT_WIRE_GOLDEN_KEYS_H

/* model "m", world 1, no worker, tokens [1, 2], window 0 to 1, request "r", no salt */
#define KEY_EIGHT_FIELDS                                                                           \
    "aa6d6f64656c5f6e616d65a16d aa776f726c645f73697a6501 a9776f726b65725f6964c0"                   \
    "a9746f6b656e5f696473920102 a5737461727400 a3656e6401 aa726571756573745f6964a172"              \
    "aa63616368655f73616c74a0"
#define KEY_TWO_MORE "af726571756573745f636f6e66696773c0 ae6e756d5f6b765f7265616465727300"
#define OLDER_KEY    "88" KEY_EIGHT_FIELDS
#define NEWER_KEY    "8a" KEY_EIGHT_FIELDS KEY_TWO_MORE

/* one float16 array of shape (2, 1, 16, 8) */
#define LAYOUT "82 a6736861706573919402011008 a664747970657391a7666c6f61743136"

#endif
