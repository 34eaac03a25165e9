/* Every clause: those that checks test, and those that no check tests, with the reason. For list, and
 * the documents that are made from it. */
#ifndef KVC_RUN_CLAUSE_H
#define KVC_RUN_CLAUSE_H

#include "src/run/registry.h"

/* A clause that no check tests. */
struct kvc_untested {
    const char *id;     /* family/clause-name, like the id of a check */
    const char *clause; /* one sentence: what a server does */
    const char *source; /* where the rule comes from: "protocol 4.10, B32" */
    enum kvc_level level;
    const char *first;  /* first dialect that has it, by any release; NULL: the oldest */
    const char *last;   /* last one; NULL: the newest */
    const char *reason; /* why no check tests it */
};

/* Declared in tests/conformance/untested_clauses.c; the last entry has no id. Weak, since a program
 * without checks has no such table. */
extern const struct kvc_untested kvc_untested_clauses[] __attribute__((weak));

/* What both kinds share. */
struct kvc_clause {
    const char *id;
    const char *text;
    const char *source; /* NULL: none */
    enum kvc_level level;
    const struct kvc_check *check;       /* NULL: no check tests it */
    const struct kvc_untested *untested; /* NULL: a check tests it */
};

struct kvc_clauses {
    struct kvc_clause *items; /* sorted by id; point into the registry and the table */
    size_t count;
};

/* Those of the registry and of the program's table. KVC_EFORMAT when an entry of the table is wrong: an
 * id badly formed or twice, no clause, no source or no reason, an unknown dialect. Free with
 * kvc_clauses_clear whatever is returned. */
kvc_status kvc_clauses_load(const struct kvc_registry *registry, struct kvc_clauses *clauses,
                            struct kvc_error *err);
/* The same for a given table, whose last entry has no id (NULL: none). */
kvc_status kvc_clauses_build(const struct kvc_registry *registry,
                             const struct kvc_untested *untested, struct kvc_clauses *clauses,
                             struct kvc_error *err);
void kvc_clauses_clear(struct kvc_clauses *clauses);

/* As kvc_check_dialects_append. */
void kvc_clause_dialects_append(const struct kvc_clause *clause, struct kvc_buffer *out);

#endif
