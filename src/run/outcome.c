#include "src/run/outcome.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *kvc_outcome_name(enum kvc_outcome outcome)
{
    static const char *const names[] = {
        [KVC_OUTCOME_PASS] = "pass",         [KVC_OUTCOME_FAIL] = "fail",
        [KVC_OUTCOME_SKIP] = "skip",         [KVC_OUTCOME_KNOWN] = "known",
        [KVC_OUTCOME_SURPRISE] = "surprise", [KVC_OUTCOME_TIMEOUT] = "timeout",
        [KVC_OUTCOME_CRASH] = "crash",       [KVC_OUTCOME_ERROR] = "error",
        [KVC_OUTCOME_NOT_RUN] = "not-run",
    };
    return outcome < KVC_OUTCOME_COUNT ? names[outcome] : "unknown";
}

void kvc_result_init(struct kvc_result *result, const struct kvc_instance *instance)
{
    *result = (struct kvc_result){
        .instance = instance,
        .message = kvc_strdup(""),
        .expected = kvc_strdup(""),
        .got = kvc_strdup(""),
        .details = kvc_strdup(""),
        .reason = kvc_strdup(""),
        .reproduce = kvc_strdup(""),
    };
}

void kvc_result_clear(struct kvc_result *result)
{
    free(result->message);
    free(result->expected);
    free(result->got);
    free(result->details);
    free(result->reason);
    free(result->reproduce);
    *result = (struct kvc_result){0};
}

void kvc_result_set(char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *fresh = NULL;
    const int length = vasprintf(&fresh, format, args);
    va_end(args);
    if (length < 0)
        return;
    free(*text);
    *text = fresh;
}

bool kvc_summary_failed(const struct kvc_summary *summary)
{
    static const enum kvc_outcome bad[] = {KVC_OUTCOME_FAIL, KVC_OUTCOME_SURPRISE,
                                           KVC_OUTCOME_TIMEOUT, KVC_OUTCOME_CRASH,
                                           KVC_OUTCOME_ERROR};
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++)
        if (summary->counts[bad[i]] > 0)
            return true;
    return false;
}
