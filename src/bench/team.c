#include "src/bench/team.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "src/base/bytes.h"
#include "src/base/clock.h"

struct member {
    struct kvc_team *team;
    int64_t share;
    pthread_t thread;
    int64_t cpu_ns; /* of the last round */
};

struct kvc_team {
    struct member *members; /* the first is the caller, and has no thread */
    int64_t count;
    enum kvc_team_clock clock;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int64_t round;      /* of work; a member that sees a new one begins */
    int64_t busy;       /* members besides the caller that have not finished it */
    kvc_team_work work; /* NULL: go home */
    void *context;
};

static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void do_share(struct member *member, kvc_team_work work)
{
    const int64_t started = thread_cpu_ns();
    work(member->team->context, member->share, member->team->count);
    member->cpu_ns = thread_cpu_ns() - started;
}

static void *serve(void *argument)
{
    struct member *member = argument;
    struct kvc_team *team = member->team;
    int64_t seen = 0;
    for (;;) {
        pthread_mutex_lock(&team->mutex);
        while (team->round == seen)
            pthread_cond_wait(&team->changed, &team->mutex);
        seen = team->round;
        const kvc_team_work work = team->work;
        pthread_mutex_unlock(&team->mutex);
        if (work == NULL)
            return NULL;
        do_share(member, work);
        pthread_mutex_lock(&team->mutex);
        team->busy--;
        pthread_cond_broadcast(&team->changed);
        pthread_mutex_unlock(&team->mutex);
    }
}

static void begin(struct kvc_team *team, kvc_team_work work, void *context)
{
    pthread_mutex_lock(&team->mutex);
    team->work = work;
    team->context = context;
    team->busy = team->count - 1;
    team->round++;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->mutex);
}

static void wait_for_all(struct kvc_team *team)
{
    pthread_mutex_lock(&team->mutex);
    while (team->busy > 0)
        pthread_cond_wait(&team->changed, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

struct kvc_team *kvc_team_open(int64_t count, enum kvc_team_clock clock, struct kvc_error *err)
{
    struct kvc_team *team = kvc_alloc_zero(1, sizeof(*team));
    team->members = kvc_alloc_zero((size_t)count, sizeof(*team->members));
    team->members[0] = (struct member){.team = team};
    team->clock = clock;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->changed, NULL);
    for (team->count = 1; team->count < count; team->count++) {
        struct member *member = &team->members[team->count];
        *member = (struct member){.team = team, .share = team->count};
        errno = pthread_create(&member->thread, NULL, serve, member);
        if (errno != 0) {
            kvc_fail_errno(err, "cannot start a thread, the %lldth of %lld",
                           (long long)team->count + 1, (long long)count);
            kvc_team_close(team);
            return NULL;
        }
    }
    return team;
}

void kvc_team_close(struct kvc_team *team)
{
    if (team == NULL)
        return;
    begin(team, NULL, NULL);
    for (int64_t i = 1; i < team->count; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_mutex_destroy(&team->mutex);
    pthread_cond_destroy(&team->changed);
    free(team->members);
    free(team);
}

static int64_t most_cpu_ns(const struct kvc_team *team)
{
    int64_t most = 0;
    for (int64_t i = 0; i < team->count; i++)
        most = team->members[i].cpu_ns > most ? team->members[i].cpu_ns : most;
    return most;
}

int64_t kvc_team_run(struct kvc_team *team, kvc_team_work work, void *context)
{
    const int64_t started = kvc_now_ns();
    begin(team, work, context);
    do_share(&team->members[0], work);
    wait_for_all(team);
    return team->clock == KVC_TEAM_CPU ? most_cpu_ns(team) : kvc_now_ns() - started;
}
