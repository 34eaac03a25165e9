#include <criterion/criterion.h>
#include <string.h>

#include "tests/mock_server/session.h"

static struct mock_sessions sessions;

Test(session, is_found_by_its_whole_id)
{
    const struct kvc_str with_nul = {"a\0b", 3};
    struct mock_session *a = mock_session_get(&sessions, KVC_STR("a"), 0);
    struct mock_session *b = mock_session_get(&sessions, with_nul, 0);
    struct mock_session *empty = mock_session_get(&sessions, KVC_STR(""), 0);
    cr_assert(a != b && b != empty && a != empty);
    cr_assert_eq(mock_session_get(&sessions, KVC_STR("a"), 0), a);
    cr_assert_eq(mock_session_find(&sessions, with_nul), b);
    cr_assert_null(mock_session_find(&sessions, KVC_STR("b")));
    cr_assert_eq(sessions.count, 3u);
    mock_sessions_clear(&sessions);
    cr_assert_eq(sessions.count, 0u);
}

Test(session, expires_by_its_beginning)
{
    mock_session_get(&sessions, KVC_STR("old"), 10);
    mock_session_get(&sessions, KVC_STR("new"), 20);
    cr_assert_eq(mock_sessions_expire(&sessions, 10), 1u);
    cr_assert_null(mock_session_find(&sessions, KVC_STR("old")));
    cr_assert_not_null(mock_session_find(&sessions, KVC_STR("new")));
    mock_sessions_clear(&sessions);
}

/* protocol.md 7.2: sixteen zeros, and 1 to 16, in chunks of 16 */
static const uint8_t hash_of_zeros[] = {0x12, 0x51, 0x68, 0xdc, 0x05, 0x32, 0xa2, 0xab};
static const uint8_t hash_of_counting[] = {0x4c, 0x5b, 0x93, 0x8a, 0x8d, 0x6e, 0x2c, 0x96};

Test(session, hashes_are_those_of_the_tokens_at_hand)
{
    int64_t zeros[16] = {0}, counting[16];
    for (int i = 0; i < 16; i++)
        counting[i] = i + 1;
    struct mock_session *session = mock_session_get(&sessions, KVC_STR("r"), 0);
    const struct kvc_ints first = {zeros, 16}, second = {counting, 16};
    cr_assert_arr_eq(mock_session_hashes(session, first, 16, false), hash_of_zeros, 8);
    cr_assert_arr_eq(mock_session_hashes(session, second, 16, false), hash_of_counting, 8);
    cr_assert_arr_eq(mock_session_hashes(session, first, 16, true), hash_of_counting, 8,
                     "the defect keeps what came first");
    mock_sessions_clear(&sessions);
}
