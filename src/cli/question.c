#include "src/cli/question.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { MAX_LINE = 4096, CONTROL_C = 3, CONTROL_D = 4, ESCAPE = 27 };

static bool has_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && kind != NULL && kind[0] != '\0' &&
           strcmp(kind, "dumb") != 0;
}

static void print_question(const struct kvc_question *question)
{
    fprintf(stderr, "\n  %s\n", question->title);
    if (question->help[0] != '\0')
        fprintf(stderr, "    %s\n", question->help);
}

/* ---- lines ---- */

/* Byte by byte, so that nothing is read ahead of the next question. */
static enum kvc_answer read_line(char line[MAX_LINE])
{
    size_t size = 0;
    char byte;
    ssize_t got;
    while ((got = read(STDIN_FILENO, &byte, 1)) == 1 && byte != '\n')
        if (size < MAX_LINE - 1)
            line[size++] = byte;
    while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\r' || line[size - 1] == '\t'))
        size--;
    line[size] = '\0';
    if (got != 1 && size == 0)
        return KVC_ANSWER_END;
    return strcmp(line, "<") == 0 ? KVC_ANSWER_BACK : KVC_ANSWER_GIVEN;
}

enum kvc_answer kvc_question_ask_line(const struct kvc_question *question, const char *initial,
                                      char **answer)
{
    char line[MAX_LINE];
    print_question(question);
    if (initial != NULL && initial[0] != '\0')
        fprintf(stderr, "    [default: %s] > ", initial);
    else
        fputs("    > ", stderr);
    const enum kvc_answer kind = read_line(line);
    *answer = kvc_strdup(line[0] == '\0' && initial != NULL ? initial : line);
    return kind;
}

enum kvc_answer kvc_question_ask_yes(const struct kvc_question *question, bool *yes)
{
    char line[MAX_LINE];
    print_question(question);
    for (;;) {
        fprintf(stderr, "    [default: %s] (%s) > ", *yes ? "Y" : "N", *yes ? "Y/n" : "y/N");
        const enum kvc_answer kind = read_line(line);
        if (kind != KVC_ANSWER_GIVEN || line[0] == '\0')
            return kind;
        const bool is_yes = strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
        if (is_yes || strcasecmp(line, "n") == 0 || strcasecmp(line, "no") == 0) {
            *yes = is_yes;
            return kind;
        }
        fputs("    Answer y or n.\n", stderr);
    }
}

/* ---- choices without a terminal ---- */

static bool find_choice(const struct kvc_question_choice *choices, size_t count, const char *line,
                        size_t *chosen)
{
    char *end;
    const unsigned long number = strtoul(line, &end, 10);
    if (end != line && *end == '\0' && number >= 1 && number <= count) {
        *chosen = number - 1;
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(choices[i].name, line) == 0) {
            *chosen = i;
            return true;
        }
    }
    return false;
}

static enum kvc_answer choose_by_number(const struct kvc_question_choice *choices, size_t count,
                                        size_t *chosen)
{
    char line[MAX_LINE];
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "    %zu  %-22s %s\n", i + 1, choices[i].name,
                choices[i].about == NULL ? "" : choices[i].about);
    for (;;) {
        fprintf(stderr, "    [default: %zu] > ", *chosen + 1);
        const enum kvc_answer kind = read_line(line);
        if (kind != KVC_ANSWER_GIVEN || line[0] == '\0' ||
            find_choice(choices, count, line, chosen))
            return kind;
        fprintf(stderr, "    Answer with a number from 1 to %zu, or a name.\n", count);
    }
}

/* ---- choices by arrow keys ---- */

static struct termios cooked; /* what the terminal is set back to */

static void set_back(int number)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
    signal(number, SIG_DFL);
    raise(number);
}

/* Keys arrive one by one and are not shown; Ctrl-C is one. A signal that ends us sets all back first. */
static bool take_keys(void)
{
    if (tcgetattr(STDIN_FILENO, &cooked) != 0)
        return false;
    struct termios raw = cooked;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    signal(SIGTERM, set_back);
    signal(SIGHUP, set_back);
    return tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) == 0;
}

static void give_keys_back(void)
{
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &cooked);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

/* -1 and +1 for an arrow key up or down, whatever its form, and 0 for another sequence. */
static int read_arrow(void)
{
    char bytes[2] = {0};
    if (read(STDIN_FILENO, bytes, 1) != 1 || (bytes[0] != '[' && bytes[0] != 'O') ||
        read(STDIN_FILENO, bytes + 1, 1) != 1)
        return 0;
    return bytes[1] == 'A' ? -1 : bytes[1] == 'B' ? 1 : 0;
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

/* A line that wrapped would take two, and the next drawing would not find its place. */
static void draw_choices(const struct kvc_question_choice *choices, size_t count, size_t chosen)
{
    for (size_t i = 0; i < count; i++) {
        char line[512];
        snprintf(line, sizeof(line), "    %s %-22s %s", i == chosen ? "*" : " ", choices[i].name,
                 choices[i].about == NULL ? "" : choices[i].about);
        fprintf(stderr, "\x1b[2K%.*s\n", terminal_width() - 1, line);
    }
}

static enum kvc_answer choose_by_arrows(const struct kvc_question_choice *choices, size_t count,
                                        size_t *chosen)
{
    for (;;) {
        char key;
        int move = 0;
        draw_choices(choices, count, *chosen);
        if (read(STDIN_FILENO, &key, 1) != 1 || key == CONTROL_D)
            return KVC_ANSWER_END;
        if (key == CONTROL_C)
            return KVC_ANSWER_BREAK;
        if (key == '\n' || key == '\r')
            return KVC_ANSWER_GIVEN;
        if (key == '<')
            return KVC_ANSWER_BACK;
        if (key == ESCAPE)
            move = read_arrow();
        if (move < 0 || key == 'k')
            *chosen = *chosen > 0 ? *chosen - 1 : count - 1;
        if (move > 0 || key == 'j')
            *chosen = (*chosen + 1) % count;
        fprintf(stderr, "\x1b[%zuA", count);
    }
}

enum kvc_answer kvc_question_ask_choice(const struct kvc_question *question,
                                        const struct kvc_question_choice *choices, size_t count,
                                        size_t *chosen)
{
    print_question(question);
    if (!has_terminal() || !take_keys())
        return choose_by_number(choices, count, chosen);
    fputs("    Use up/down to navigate, Enter to select.\n\n", stderr);
    const enum kvc_answer kind = choose_by_arrows(choices, count, chosen);
    give_keys_back();
    return kind;
}
