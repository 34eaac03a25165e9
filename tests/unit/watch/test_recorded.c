/* What the reference client, `lmcache bench server`, does wrong in its recorded exchanges with real
 * servers of its release. docs/watching-a-client.md says what comes of it. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "src/wire/recording.h"
#include "tests/unit/watch/scene.h"

static void feed(struct scene *scene, const struct kvc_recorded_message *message)
{
    if (message->from_server)
        kvc_watch_reply(scene->watch, scene->client, &message->frames);
    else
        kvc_watch_request(scene->watch, scene->client, &message->frames,
                          (int64_t)(message->seconds * 1000));
}

/* The recording's name begins with the release. */
static void expect_of(const char *name, const char *expected)
{
    char path[512], release[6];
    struct kvc_recording recording;
    struct kvc_error err = KVC_ERROR_INIT;
    struct scene scene;
    snprintf(path, sizeof(path), FRAMES_FOLDER "/%s.json", name);
    snprintf(release, sizeof(release), "%s", name);
    cr_assert_eq(kvc_recording_load(path, &recording, &err), KVC_OK, "%s", err.what);
    scene_open_unknown(&scene, release);
    for (size_t i = 0; i < recording.count; i++)
        feed(&scene, &recording.messages[i]);
    scene_expect(&scene, expected);
    kvc_recording_clear(&recording);
}

Test(recorded, engine_driven)
{
    expect_of("0.5.1-engine_driven", "");
    expect_of("0.5.6-engine_driven", "");
    expect_of("0.5.6-engine_driven-pool", "");
}

Test(recorded, lmcache_driven)
{
    expect_of("0.5.1-lmcache_driven", "");
    expect_of("0.5.6-lmcache_driven", "");
    expect_of("0.5.6-lmcache_driven-warm-hit", "");
    expect_of("0.5.6-lmcache_driven-mla-tp2", "");
    expect_of("0.5.6-lmcache_driven-two-groups", "");
}

/* It waits for 10 s, and goes on as if it were registered. */
Test(recorded, a_registration_that_is_not_answered)
{
    expect_of("0.5.1-lmcache_driven-two-groups",
              "model-not-registered, not-registered, model-not-registered, not-registered");
}
