/* Expectation files: the known deviations of one server version. For `run`.
 *
 *   ID-OR-GLOB  OUTCOME[|OUTCOME…]  # why, where reported
 *
 * An empty line, or one that begins with #, is a comment. The last line that matches a check counts. */
#ifndef KVC_RUN_EXPECT_H
#define KVC_RUN_EXPECT_H

#include "src/run/registry.h"

/* What a line may expect. "dies" is any bad end after which the server answers nothing; the others
 * do not cover that. "skip" keeps the check from being run. */
enum kvc_expected {
    KVC_EXPECTED_FAIL = 1u << 0,
    KVC_EXPECTED_TIMEOUT = 1u << 1,
    KVC_EXPECTED_CRASH = 1u << 2,
    KVC_EXPECTED_DIES = 1u << 3,
    KVC_EXPECTED_SKIP = 1u << 4,
};

/* A reason that stands for "still to be written": --update-expect writes it, loading refuses it. */
#define KVC_EXPECT_PLACEHOLDER "?"

/* One check that ended under a line, or under none. */
struct kvc_expect_seen {
    char *id;
    unsigned outcome; /* a bit of enum kvc_expected; 0: it passed */
};

struct kvc_expect_seen_list {
    struct kvc_expect_seen *items;
    size_t count;
};

struct kvc_expectation {
    int line;      /* its number */
    char *text;    /* as read, for --update-expect */
    char *pattern; /* NULL: a comment or an empty line */
    unsigned outcomes;
    char *reason;
    size_t matched;                   /* instances that exist and for which this line counts */
    struct kvc_expect_seen_list seen; /* those that passed or failed in this run */
};

struct kvc_expectations {
    char *path; /* NULL: no file */
    struct kvc_expectation *lines;
    size_t count;
    struct kvc_expect_seen_list unexpected; /* failed, and no line counts for them */
};

/* Reads a file. KVC_EUSAGE with FILE:LINE in where when it cannot be read, a line does not parse, has
 * no reason, or repeats a pattern. With to_rewrite a file that does not exist is empty, and KVC_EUSAGE
 * also comes when kvc_expect_update could not replace it. Matches the lines against all instances there
 * are. */
kvc_status kvc_expect_load(const char *path, bool to_rewrite, const struct kvc_registry *registry,
                           struct kvc_expectations *expectations, struct kvc_error *err);
void kvc_expect_clear(struct kvc_expectations *expectations);

/* The line that counts for an id; NULL: none. */
struct kvc_expectation *kvc_expect_find(struct kvc_expectations *expectations, const char *id);

/* Sets result->outcome and result->reason from result->raw and the line that counts: known, surprise,
 * or as it is; remembers it for the functions below. */
void kvc_expect_judge(struct kvc_expectations *expectations, struct kvc_result *result);

/* Lines that matched no check, or only checks that passed: one text each, NULL-terminated; the
 * caller frees the texts and the list. */
char **kvc_expect_stale(const struct kvc_expectations *expectations);

/* Rewrites the file by what kvc_expect_judge saw: a line whose checks all passed, or that matches
 * nothing, goes; where they ended otherwise than it says, its outcomes change; failures without a
 * line get one, with the placeholder as reason. Comments stay. KVC_ESYSTEM. */
kvc_status kvc_expect_update(const struct kvc_expectations *expectations, struct kvc_error *err);

#endif
