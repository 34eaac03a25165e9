/* Questions on a terminal, and plain ones where there is none. For commands that ask. */
#ifndef KVC_CLI_QUESTION_H
#define KVC_CLI_QUESTION_H

#include "src/base/bytes.h"

enum kvc_answer {
    KVC_ANSWER_GIVEN,
    KVC_ANSWER_BACK,  /* "<": to the question before */
    KVC_ANSWER_END,   /* the input has ended */
    KVC_ANSWER_BREAK, /* Ctrl-C, where it is a key; elsewhere it ends the program */
};

struct kvc_question {
    const char *title;
    const char *help; /* "": none */
};

struct kvc_question_choice {
    const char *name;
    const char *about; /* NULL: none */
};

/* Questions go to stderr, answers come from stdin. */

/* One line. An empty answer is initial, if that is not NULL; the caller frees *answer. */
enum kvc_answer kvc_question_ask_line(const struct kvc_question *question, const char *initial,
                                      char **answer);
/* One of count choices: by arrow keys and Enter, or by number or name. *chosen is the one offered first. */
enum kvc_answer kvc_question_ask_choice(const struct kvc_question *question,
                                        const struct kvc_question_choice *choices, size_t count,
                                        size_t *chosen);
/* Yes or no. *yes is the default. */
enum kvc_answer kvc_question_ask_yes(const struct kvc_question *question, bool *yes);

#endif
