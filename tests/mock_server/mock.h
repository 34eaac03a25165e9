/* The bundled mock: a whole MP server in one process, correct unless a defect is switched on.
 * For the mock target and `kvconform mock`. */
#ifndef KVC_TESTS_MOCK_SERVER_MOCK_H
#define KVC_TESTS_MOCK_SERVER_MOCK_H

#include "src/wire/dialect.h"

struct kvc_mock_options {
    const char *bind; /* "tcp://127.0.0.1:0", "ipc://…" */
    const char *http; /* "127.0.0.1:0"; NULL: no HTTP */
    const struct kvc_dialect *dialect;
    const char *version;    /* what GET /version says; NULL: the dialect's newest release */
    int64_t chunk_size;     /* tokens; 0: 256 */
    int64_t pool_size;      /* bytes; 0: 1 GiB (only touched pages take memory) */
    bool no_pool;           /* keep the cache in private memory and transfer inline */
    const char *pool_name;  /* NULL: one of our own making that a later run can sweep */
    const char *l2_adapter; /* the store below, as JSON (src/l2); NULL: none */
    int64_t read_ttl_ms;    /* 0: 300 s */
    int64_t write_ttl_ms;   /* 0: 600 s */
    int64_t session_ttl_ms; /* 0: 600 s */
    int64_t reap_ms;        /* 0: 120 s */
    int64_t store_delay_ms; /* STORE becomes visible this long after its reply; -1: at once; 0: 5 */
    const char *const *defects; /* NULL-terminated; NULL: none */
    bool strict;                /* report on stderr what a client does wrong */
    size_t *findings;           /* how much strict has reported is added here; NULL: nowhere */
    int ready_fd; /* writes "<rpc url>\n<http url or empty>\n" here when it answers; -1: none */
    int stop_fd;  /* ends when this becomes readable or closes; -1: only by signals */
};

/* Runs until SIGINT, SIGTERM or stop_fd. Leaves nothing behind. KVC_EUSAGE for an unknown defect (names
 * the nearest ones), KVC_ESYSTEM when an address is taken. */
kvc_status kvc_mock_run(const struct kvc_mock_options *options, struct kvc_error *err);

/* One way in which the mock can be wrong. */
struct kvc_mock_defect {
    const char *name;    /* kebab-case */
    const char *summary; /* one line: what it then does */
    const char *origin;  /* the bug it is modelled on: "B32", "implementer's slip" */
};

extern const struct kvc_mock_defect kvc_mock_defects[];
extern const size_t kvc_mock_defect_count;

#endif
