#include "src/cli/stop.h"

#include <signal.h>
#include <stddef.h>

#include "src/base/bytes.h"

volatile int kvc_stop_signal;
volatile int kvc_stop_again;

static void on_signal(int number)
{
    if (kvc_stop_signal != 0)
        kvc_stop_again = number;
    kvc_stop_signal = number;
}

void kvc_stop_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < KVC_COUNT_OF(numbers); i++) {
        struct sigaction before;
        sigaction(numbers[i], NULL, &before);
        if (numbers[i] != SIGHUP || before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

int kvc_stop_exit_status(void)
{
    return 128 + kvc_stop_signal;
}
