#include <criterion/criterion.h>

#include "src/bench/team.h"

enum { MOST = 5, ROUNDS = 50 };

struct tally {
    int64_t shares;
    int64_t done[MOST]; /* by share */
};

static void count(void *context, int64_t share, int64_t shares)
{
    struct tally *tally = context;
    tally->done[share]++;
    if (share == 0)
        tally->shares = shares;
}

Test(team, does_each_share_once_a_round)
{
    for (int64_t members = 1; members <= MOST; members++) {
        struct kvc_team *team =
            kvc_team_open(members, members % 2 == 0 ? KVC_TEAM_CPU : KVC_TEAM_WALL, NULL);
        struct tally tally = {.shares = 0};
        cr_assert_not_null(team);
        for (int64_t round = 1; round <= ROUNDS; round++) {
            cr_assert_geq(kvc_team_run(team, count, &tally), 0);
            cr_assert_eq(tally.shares, members);
            for (int64_t share = 0; share < MOST; share++)
                cr_assert_eq(tally.done[share], share < members ? round : 0);
        }
        kvc_team_close(team);
    }
}

Test(team, that_did_nothing_can_be_closed)
{
    kvc_team_close(kvc_team_open(3, KVC_TEAM_WALL, NULL));
    kvc_team_close(NULL);
}
