/* Checks of a store that is killed, shared, full or gone. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/bench/l2_objects.h"

/* ---- a store that is killed ---- */

/* The path of the store's folder, when it has one; also behind a defect. The caller frees it. */
static char *folder_of(const struct kvc_l2_check_run *run)
{
    json_t *config = json_loads(run->options->config->shown, 0, NULL);
    const json_t *inner = json_object_get(config, "inner");
    const char *path =
        json_string_value(json_object_get(inner != NULL ? inner : config, "base_path"));
    char *copy = path == NULL ? NULL : kvc_strdup(path);
    json_decref(config);
    return copy;
}

/* Writes a byte to `told` for every object. */
static _Noreturn void store_until_killed(struct kvc_l2_check_run *run, int told)
{
    signal(SIGTERM, SIG_DFL);
    kvc_l2_check_open(run);
    for (uint32_t i = 0;; i = (i + 1) % KVC_L2_OBJECT_KEYS) {
        kvc_l2_object_must_store(run, i, 1 + i % 2);
        if (write(told, "", 1) != 1)
            _exit(1);
    }
}

/* Kills it while it stores the object after the first `objects`. */
static pid_t kill_storing(struct kvc_l2_check_run *run, int objects)
{
    char byte;
    int told[2];
    if (pipe(told) != 0)
        kvc_l2_check_fail(run, "cannot make a pipe: %s", strerror(errno));
    const pid_t process = fork();
    if (process == 0)
        store_until_killed(run, told[1]);
    close(told[1]);
    for (int i = 0; i < objects; i++)
        if (read(told[0], &byte, 1) != 1)
            break;
    kvc_sleep_ms(objects % 4);
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
    close(told[0]);
    return process;
}

static void look_after_kill(const struct kvc_l2_check_run *run)
{
    for (uint32_t i = 0; i < KVC_L2_OBJECT_KEYS; i++) {
        struct kvc_error err;
        const struct kvc_l2_key key = kvc_l2_object_key(run, i);
        if (kvc_l2_object_do(run, KVC_L2_LOOKUP, &key, NULL, &err) == KVC_L2_DONE &&
            kvc_l2_object_held(run, &key, i, 2) == 0)
            kvc_l2_check_fail(run, "after a kill object %u is found, and does not load whole", i);
    }
}

/* The file that it was writing; nobody else can have it. */
static void remove_unfinished(const struct kvc_l2_check_run *run, pid_t process)
{
    char *folder = folder_of(run);
    char *prefix = kvc_format("kvconform-%d-", (int)process);
    DIR *open = folder == NULL ? NULL : opendir(folder);
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(dirfd(open), entry->d_name, 0);
    if (open != NULL)
        closedir(open);
    free(prefix);
    free(folder);
}

void kvc_l2_check_interrupted(struct kvc_l2_check_run *run)
{
    enum { KILLS = 8 };
    for (int i = 0; i < KILLS; i++) {
        kvc_l2_check_close(run);
        const pid_t process = kill_storing(run, 1 + i);
        remove_unfinished(run, process);
        kvc_l2_check_open(run);
        look_after_kill(run);
        kvc_l2_object_remove_all(run, KVC_L2_OBJECT_KEYS);
    }
}

/* ---- two writers ---- */

struct writer {
    const struct kvc_l2_check_run *run;
    uint64_t version;
    void *lane;
    atomic_bool *stop;
    bool failed;
};

static void *write_again_and_again(void *arg)
{
    struct writer *writer = arg;
    struct kvc_l2_check_run own = *writer->run;
    const struct kvc_l2_key key = kvc_l2_object_key(&own, 0);
    own.lane = writer->lane;
    while (!atomic_load(writer->stop)) {
        struct kvc_error err;
        if (kvc_l2_object_store(&own, &key, 0, writer->version, &err) != KVC_L2_DONE)
            writer->failed = true;
    }
    return NULL;
}

void kvc_l2_check_two_writers(struct kvc_l2_check_run *run)
{
    enum { WRITERS = 2, LOADS = 100 };
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    static atomic_bool stop;
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_l2_key key = kvc_l2_object_key(run, 0);
    kvc_l2_object_must_store(run, 0, 1);
    for (size_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.run = run, .version = i + 1, .stop = &stop};
        if (run->adapter->open_lane(run->store, &writers[i].lane, &err) != KVC_OK)
            kvc_l2_check_fail(run, "a second lane does not open: %s", err.what);
        pthread_create(&threads[i], NULL, write_again_and_again, &writers[i]);
    }
    for (size_t i = 0; i < LOADS; i++)
        kvc_l2_object_held(run, &key, 0, WRITERS);
    atomic_store(&stop, true);
    for (size_t i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        run->adapter->close_lane(writers[i].lane);
        if (writers[i].failed)
            kvc_l2_check_fail(run, "one of two stores of a key at a time fails");
    }
    if (kvc_l2_object_held(run, &key, 0, WRITERS) == 0)
        kvc_l2_check_fail(run, "after two writers the object does not load");
    kvc_l2_object_remove_all(run, 1);
}

/* ---- no room, and no store ---- */

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

void kvc_l2_check_full(struct kvc_l2_check_run *run)
{
    struct kvc_error err;
    const struct kvc_l2_key key = kvc_l2_object_key(run, 0);
    signal(SIGXFSZ, SIG_IGN);
    set_file_limit(run->options->object_size / 2);
    const enum kvc_l2_outcome outcome = kvc_l2_object_store(run, &key, 0, 1, &err);
    set_file_limit(RLIM_INFINITY);
    if (outcome == KVC_L2_DONE) {
        kvc_l2_object_must_hold(run, 0, 1);
        kvc_l2_object_remove_all(run, 1);
        kvc_l2_check_skip(run, "the store does not write files of this process");
    }
    kvc_l2_object_must_be_absent(run, &key, "an object for which there was no room");
    kvc_l2_object_must_store(run, 0, 2);
    kvc_l2_object_must_hold(run, 0, 2);
    kvc_l2_object_remove_all(run, 1);
}

void kvc_l2_check_gone(struct kvc_l2_check_run *run)
{
    struct kvc_error err;
    const struct kvc_l2_key first = kvc_l2_object_key(run, 0), second = kvc_l2_object_key(run, 1);
    char *folder = folder_of(run);
    if (folder == NULL)
        kvc_l2_check_skip(run, "only a folder can be taken away from here");
    char *aside = kvc_format("%s.kvconform-%d", folder, (int)getpid());
    uint8_t *data = kvc_l2_object_make(run);
    kvc_l2_object_must_store(run, 0, 1);
    if (rename(folder, aside) != 0)
        kvc_l2_check_skip(run, "the folder cannot be moved: %s", strerror(errno));
    const enum kvc_l2_outcome stored = kvc_l2_object_store(run, &second, 1, 1, &err);
    const enum kvc_l2_outcome loaded = kvc_l2_object_do(run, KVC_L2_LOAD, &first, data, &err);
    if (rename(aside, folder) != 0)
        kvc_l2_check_fail(run, "the folder is '%s' now: %s", aside, strerror(errno));
    const struct kvc_l2_payload payload = kvc_l2_object_payload(1);
    if (loaded == KVC_L2_DONE &&
        kvc_l2_payload_check(&payload, 0, data, run->options->object_size, &err) != KVC_OK)
        kvc_l2_check_fail(run, "loaded while the folder was away, and wrong: %s", err.what);
    if (stored == KVC_L2_DONE && kvc_l2_object_held(run, &second, 1, 1) == 0)
        kvc_l2_check_fail(run, "a store while the folder was away is said to be done, and is not");
    kvc_l2_object_must_store(run, 1, 2);
    kvc_l2_object_must_hold(run, 1, 2);
    kvc_l2_object_must_hold(run, 0, 1);
    kvc_l2_object_remove_all(run, 2);
    free(data);
    free(aside);
    free(folder);
}
