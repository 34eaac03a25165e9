#include "src/cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/run/nearest.h"

void kvc_texts_clear(struct kvc_texts *texts)
{
    free(texts->items);
    *texts = (struct kvc_texts){0};
}

/* One line, whatever bytes of a user or a server are in it. */
void kvc_print_error(const struct kvc_error *err)
{
    char line[sizeof(*err) + 32];
    struct kvc_buffer shown = {0};
    kvc_error_line(err, line, sizeof(line));
    for (const char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            kvc_buffer_printf(&shown, "\\x%02x", (unsigned)(unsigned char)*c);
        else
            kvc_buffer_append_byte(&shown, (uint8_t)*c);
    }
    fprintf(stderr, "kvconform: %s\n", kvc_buffer_text(&shown));
    kvc_buffer_clear(&shown);
}

int kvc_exit_status(kvc_status status)
{
    return status == KVC_OK       ? 0
           : status == KVC_EUSAGE ? 2
           : status == KVC_ECONNECT || status == KVC_ELOST || status == KVC_ETIMEOUT ||
                   status == KVC_EFORMAT || status == KVC_EREFUSED || status == KVC_EUNSUPPORTED
               ? 3
               : 1;
}

/* ---- values ---- */

static kvc_status refuse(const char *text, const char *accepted, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted: give %s", text, accepted);
}

static kvc_status set_number(const struct kvc_option *option, const char *text, void *value,
                             struct kvc_error *err)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && number >= option->minimum) {
        *(int64_t *)value = number;
        return KVC_OK;
    }
    char accepted[64];
    snprintf(accepted, sizeof(accepted), "a whole number, at least %lld",
             (long long)option->minimum);
    return refuse(text, accepted, err);
}

static kvc_status set_rate(const char *text, void *value, struct kvc_error *err)
{
    char *end = NULL;
    const double rate = strtod(text, &end);
    if (end == text || *end != '\0' || !(rate > 0 && rate <= 1e9))
        return refuse(text, "a number above 0, such as 200 or 0.5", err);
    *(double *)value = rate;
    return KVC_OK;
}

static kvc_status set_seed(const char *text, void *value, struct kvc_error *err)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || strchr(text, '-') != NULL)
        return refuse(text, "a number from 0 to 18446744073709551615", err);
    *(uint64_t *)value = number;
    return KVC_OK;
}

static kvc_status set_seconds(const char *text, double minimum, void *value, struct kvc_error *err)
{
    char *end = NULL;
    const double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= minimum && seconds <= 1e6))
        return refuse(text, "a number of seconds, such as 10 or 0.5", err);
    *(int64_t *)value = (int64_t)(seconds * 1000);
    return KVC_OK;
}

kvc_status kvc_bytes_parse(const char *text, int64_t minimum, int64_t *bytes, struct kvc_error *err)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    const char *unit = end != text && *end != '\0' ? strchr(units, *end) : NULL;
    const int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    const char *rest = unit != NULL ? end + 1 : end;
    if (unit != NULL && strcmp(rest, "iB") == 0)
        rest += 2;
    if (errno != 0 || end == text || *rest != '\0' || number < 0 || number > INT64_MAX >> shift ||
        number << shift < minimum)
        return refuse(text, "a number of bytes, such as 4096, 64M or 2G", err);
    *bytes = number << shift;
    return KVC_OK;
}

static kvc_status set_choice(const struct kvc_option *option, const char *text, void *value,
                             struct kvc_error *err)
{
    struct kvc_buffer accepted = {0};
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(const char **)value = text;
            kvc_buffer_clear(&accepted);
            return KVC_OK;
        }
        kvc_buffer_printf(&accepted, "%s%s",
                          i == 0                   ? ""
                          : option->choices[i + 1] ? ", "
                                                   : " or ",
                          option->choices[i]);
    }
    refuse(text, kvc_buffer_text(&accepted), err);
    kvc_buffer_clear(&accepted);
    return KVC_EUSAGE;
}

static void add_text(struct kvc_texts *texts, const char *text)
{
    texts->items = kvc_realloc(texts->items, (texts->count + 2) * sizeof(texts->items[0]));
    texts->items[texts->count++] = text;
    texts->items[texts->count] = NULL;
}

static kvc_status set_value(const struct kvc_option *option, const char *text, void *value,
                            struct kvc_error *err)
{
    switch (option->kind) {
    case KVC_OPTION_FLAG:
        *(bool *)value = true;
        return KVC_OK;
    case KVC_OPTION_TEXT:
        *(const char **)value = text;
        return KVC_OK;
    case KVC_OPTION_TEXTS:
        add_text(value, text);
        return KVC_OK;
    case KVC_OPTION_NUMBER:
        return set_number(option, text, value, err);
    case KVC_OPTION_RATE:
        return set_rate(text, value, err);
    case KVC_OPTION_SEED:
        return set_seed(text, value, err);
    case KVC_OPTION_SECONDS:
        return set_seconds(text, 0.001, value, err);
    case KVC_OPTION_PAUSE:
        return set_seconds(text, 0, value, err);
    case KVC_OPTION_BYTES:
        return kvc_bytes_parse(text, option->minimum, value, err);
    case KVC_OPTION_CHOICE:
        return set_choice(option, text, value, err);
    }
    return KVC_OK;
}

/* ---- help ---- */

enum { HELP_COLUMN = 28, HELP_WIDTH = 96 };

/* Prints text from column `left` on, broken at spaces. */
static void print_wrapped(const char *text, size_t left)
{
    size_t column = left;
    while (*text != '\0') {
        const size_t word = strcspn(text, " ");
        if (column > left && column + 1 + word > HELP_WIDTH) {
            printf("\n%*s", (int)left, "");
            column = left;
        }
        printf("%s%.*s", column > left ? " " : "", (int)word, text);
        column += word + (column > left);
        text += word + strspn(text + word, " ");
    }
    printf("\n");
}

static void print_option(const struct kvc_option *option)
{
    char left[128];
    char letter[8] = "    ";
    if (option->letter != 0)
        snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    const int size =
        snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->name,
                 option->argument != NULL ? " " : "", option->argument ? option->argument : "");
    if (size + 1 >= HELP_COLUMN)
        printf("%s\n%*s", left, HELP_COLUMN, "");
    else
        printf("%-*s", HELP_COLUMN, left);
    print_wrapped(option->help, HELP_COLUMN);
}

static void print_help(const struct kvc_command_line *line)
{
    printf("usage: %s\n\n", line->usage);
    print_wrapped(line->about, 0);
    for (size_t i = 0; i < line->group_count; i++) {
        const struct kvc_option_group *group = &line->groups[i];
        printf("\n%s:\n", group->title);
        for (size_t j = 0; j < group->count; j++)
            print_option(&group->options[j]);
    }
    printf("\n  -h, --help                this text\n");
}

/* ---- parsing ---- */

/* What getopt_long needs, made from the tables; val is FIRST_VALUE + the option's place. */
enum { FIRST_VALUE = 1000, VALUE_HELP = 999 };

struct tables {
    struct option *long_options;
    const char **names;
    char *letters; /* ":ab:…" */
    size_t count;
};

static size_t count_options(const struct kvc_command_line *line)
{
    size_t count = 0;
    for (size_t i = 0; i < line->group_count; i++)
        count += line->groups[i].count;
    return count;
}

static struct tables make_tables(const struct kvc_command_line *line)
{
    const size_t count = count_options(line);
    struct tables tables = {
        .long_options = kvc_alloc_zero(count + 2, sizeof(tables.long_options[0])),
        .names = kvc_alloc_zero(count + 1, sizeof(tables.names[0])),
    };
    struct kvc_buffer letters = {0};
    kvc_buffer_append_text(&letters, ":h");
    for (size_t i = 0; i < line->group_count; i++) {
        for (size_t j = 0; j < line->groups[i].count; j++) {
            const struct kvc_option *option = &line->groups[i].options[j];
            const int has_argument =
                option->kind == KVC_OPTION_FLAG ? no_argument : required_argument;
            tables.names[tables.count] = option->name;
            tables.long_options[tables.count] =
                (struct option){option->name, has_argument, NULL, FIRST_VALUE + (int)tables.count};
            if (option->letter != 0)
                kvc_buffer_printf(&letters, "%c%s", option->letter,
                                  has_argument == no_argument ? "" : ":");
            tables.count++;
        }
    }
    tables.long_options[tables.count] = (struct option){"help", no_argument, NULL, VALUE_HELP};
    tables.letters = kvc_buffer_take_text(&letters);
    return tables;
}

static void free_tables(struct tables *tables)
{
    free(tables->long_options);
    free(tables->names);
    free(tables->letters);
}

/* The option that getopt_long means, and where its value goes. */
static const struct kvc_option *find_option(const struct kvc_command_line *line, int value,
                                            void **place)
{
    int number = FIRST_VALUE;
    for (size_t i = 0; i < line->group_count; i++) {
        const struct kvc_option_group *group = &line->groups[i];
        for (size_t j = 0; j < group->count; j++, number++) {
            const struct kvc_option *option = &group->options[j];
            if (value != number && (option->letter == 0 || value != option->letter))
                continue;
            *place = (char *)group->values + option->offset;
            return option;
        }
    }
    return NULL;
}

static kvc_status unknown_option(const struct tables *tables, const char *given,
                                 struct kvc_error *err)
{
    struct kvc_buffer nearest = {0};
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(given, "="), given);
    kvc_nearest_append(name + strspn(name, "-"), tables->names, tables->count, &nearest);
    if (nearest.size > 0)
        kvc_fail(err, KVC_EUSAGE, "there is no option '%s'; nearest: %s", name,
                 kvc_buffer_text(&nearest));
    else
        kvc_fail(err, KVC_EUSAGE, "there is no option '%s'; --help shows all", name);
    kvc_buffer_clear(&nearest);
    return KVC_EUSAGE;
}

/* One option; *help is set for --help. */
static kvc_status take_option(const struct kvc_command_line *line, const struct tables *tables,
                              int value, char **argv, bool *help, struct kvc_error *err)
{
    if (value == 'h' || value == VALUE_HELP) {
        *help = true;
        return KVC_OK;
    }
    /* For what is wrong getopt tells which option in optopt: 0 if there is no such long option. */
    void *place = NULL;
    const bool is_wrong = value == '?' || value == ':';
    const struct kvc_option *option = find_option(line, is_wrong ? optopt : value, &place);
    if (option == NULL) {
        const char letter[] = {'-', (char)optopt, '\0'};
        return unknown_option(tables, optopt > 0 && optopt < VALUE_HELP ? letter : argv[optind - 1],
                              err);
    }
    if (value == ':')
        kvc_fail(err, KVC_EUSAGE, "needs a value: %s", option->argument);
    else if (value == '?')
        kvc_fail(err, KVC_EUSAGE, "takes no value");
    else if (set_value(option, optarg, place, err) == KVC_OK)
        return KVC_OK;
    kvc_error_set_where(err, "--%s", option->name);
    return KVC_EUSAGE;
}

static kvc_status check_count(const struct kvc_command_line *line, size_t count, char **arguments,
                              struct kvc_error *err)
{
    if (count > line->max_arguments)
        return kvc_fail(err, KVC_EUSAGE, "'%s' is one argument too many; usage: %s",
                        arguments[line->max_arguments], line->usage);
    if (count < line->min_arguments)
        return kvc_fail(err, KVC_EUSAGE, "an argument is missing; usage: %s", line->usage);
    return KVC_OK;
}

bool kvc_options_parse(const struct kvc_command_line *line, int argc, char **argv,
                       char ***arguments, size_t *argument_count, int *exit_status)
{
    struct tables tables = make_tables(line);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status = KVC_OK;
    bool help = false;
    optind = 0; /* a fresh start, also after another table was parsed */
    opterr = 0;
    while (status == KVC_OK && !help) {
        const int value = getopt_long(argc, argv, tables.letters, tables.long_options, NULL);
        if (value < 0)
            break;
        status = take_option(line, &tables, value, argv, &help, &err);
    }
    free_tables(&tables);
    *arguments = argv + optind;
    *argument_count = (size_t)(argc - optind);
    if (status == KVC_OK && !help)
        status = check_count(line, *argument_count, *arguments, &err);
    if (status != KVC_OK)
        kvc_print_error(&err);
    else if (help)
        print_help(line);
    *exit_status = kvc_exit_status(status);
    return status == KVC_OK && !help;
}
