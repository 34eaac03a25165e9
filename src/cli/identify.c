/* `kvconform identify`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/wire/compatible.h"

struct identify_flags {
    const char *format;
    const char *client_dialect;
};

/* What is said of --client-dialect. */
struct client_verdict {
    const char *release; /* as given; NULL: nobody asked */
    bool works;
    struct kvc_incompatibility first; /* unless it works */
};

static const char *const format_choices[] = {"text", "json", NULL};

static const struct kvc_option identify_table[] = {
    {.name = "format",
     .kind = KVC_OPTION_CHOICE,
     .offset = offsetof(struct identify_flags, format),
     .argument = "FORMAT",
     .choices = format_choices,
     .help = "text (default) or json"},
    {.name = "client-dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = offsetof(struct identify_flags, client_dialect),
     .argument = "RELEASE",
     .help = "also say whether a client of this release can work with the server, and end with "
             "status 1 if not"},
};

static void print_text(const struct kvc_target *target, const struct client_verdict *client)
{
    const struct kvc_identity *identity = &target->identity;
    printf("server:     %s\n", target->rpc_url);
    printf("dialect:    %s (spoken by", identity->dialect->name);
    for (const char *const *release = identity->dialect->releases; *release != NULL; release++)
        printf(" %s", *release);
    printf(")\n");
    if (identity->version[0] != '\0')
        printf("version:    %s\n", identity->version);
    printf("chunk size: %lld tokens\n", (long long)identity->chunk_size);
    printf("found by:   %s\n", identity->how);
    if (client->release != NULL && client->works)
        printf("client:     %s works\n", client->release);
    else if (client->release != NULL)
        printf("client:     %s is incompatible, first differing operation %s: %s\n",
               client->release, kvc_op_name(client->first.op), client->first.reason);
}

static void add_client(json_t *root, const struct client_verdict *client)
{
    if (client->release == NULL)
        return;
    json_object_set_new(root, "client_dialect", json_string(client->release));
    json_object_set_new(root, "client_works", json_boolean(client->works));
    if (client->works)
        return;
    json_object_set_new(root, "differing_operation", json_string(kvc_op_name(client->first.op)));
    json_object_set_new(root, "difference", json_string(client->first.reason));
}

static void print_json(const struct kvc_target *target, const struct client_verdict *client)
{
    const struct kvc_identity *identity = &target->identity;
    json_t *root = json_object();
    json_t *releases = json_array();
    for (const char *const *release = identity->dialect->releases; *release != NULL; release++)
        json_array_append_new(releases, json_string(*release));
    json_object_set_new(root, "schema", json_integer(1));
    json_object_set_new(root, "kind", json_string("identity"));
    json_object_set_new(root, "rpc_url", json_string(target->rpc_url));
    json_object_set_new(root, "dialect", json_string(identity->dialect->name));
    json_object_set_new(root, "releases", releases);
    json_object_set_new(root, "server_version", json_string(identity->version));
    json_object_set_new(root, "chunk_size", json_integer(identity->chunk_size));
    json_object_set_new(root, "dialect_found_by", json_string(identity->how));
    add_client(root, client);
    json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

static int identify(const struct kvc_target_flags *target_flags, const struct identify_flags *flags)
{
    struct kvc_target_options options;
    struct kvc_target target;
    const struct kvc_dialect *client = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status = kvc_target_flags_resolve(target_flags, &options, &err);
    if (status == KVC_OK && options.rpc_url == NULL && options.launch == NULL)
        status = kvc_fail(&err, KVC_EUSAGE, "which server? Give --rpc-url or --launch");
    if (status == KVC_OK)
        status = kvc_release_flag_resolve("--client-dialect", flags->client_dialect, &client, &err);
    if (status == KVC_OK)
        status = kvc_target_init(&options, &target, &err);
    if (status == KVC_OK)
        status = kvc_target_start(&target, NULL, &err);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        return kvc_exit_status(status);
    }
    struct client_verdict verdict = {.release = flags->client_dialect, .works = true};
    if (client != NULL)
        verdict.works = kvc_dialect_serves(target.identity.dialect, client, &verdict.first);
    if (strcmp(flags->format, "json") == 0)
        print_json(&target, &verdict);
    else
        print_text(&target, &verdict);
    kvc_target_clear(&target);
    free(verdict.first.reason);
    return verdict.works ? KVC_EXIT_OK : KVC_EXIT_UNEXPECTED;
}

static int command_identify(int argc, char **argv)
{
    struct identify_flags flags = {.format = "text"};
    struct kvc_target_flags target_flags = {0};
    const struct kvc_option_group groups[] = {
        kvc_target_flag_group(false, &target_flags),
        {"What to say", identify_table, KVC_COUNT_OF(identify_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform identify --rpc-url URL | --launch CMD [OPTION…]",
        .about = "Which dialect a server speaks, found without changing its state.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = identify(&target_flags, &flags);
    kvc_target_flags_clear(&target_flags);
    return exit_status;
}

const struct kvc_command kvc_command_identify = {
    .name = "identify",
    .summary = "which dialect a server speaks, without changing its state",
    .run = command_identify,
};
