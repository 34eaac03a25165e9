/* What a client does wrong, for people. For `record --check` and `decode --check`. */
#ifndef KVC_CLI_FINDINGS_H
#define KVC_CLI_FINDINGS_H

#include <stdio.h>

#include "src/watch/watch.h"
#include "src/wire/recording.h"

/* A watch that prints what it finds, and what it is fed with. */
struct kvc_checker {
    const struct kvc_dialect *dialect;
    FILE *out;
    struct kvc_watch *watch; /* NULL: nothing is checked */
};

/* chunk_size 0: what the messages say. */
void kvc_checker_open(struct kvc_checker *checker, const struct kvc_dialect *dialect,
                      int64_t chunk_size, FILE *out);
void kvc_checker_feed(struct kvc_checker *checker, const struct kvc_recorded_message *message);
/* Prints what was left behind and one line about it all; returns how much was found. */
size_t kvc_checker_finish(struct kvc_checker *checker);

/* Prints the rules, one a line, name first. */
void kvc_rules_print(FILE *out);

#endif
