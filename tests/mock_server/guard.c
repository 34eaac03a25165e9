#include "tests/mock_server/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static sigjmp_buf escape;

static void on_bus_error(int signal)
{
    (void)signal;
    siglongjmp(escape, 1);
}

bool mock_guard(void (*func)(void *arg), void *arg)
{
    struct sigaction action = {.sa_handler = on_bus_error};
    struct sigaction before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
    if (sigsetjmp(escape, 1) != 0) {
        sigaction(SIGBUS, &before, NULL);
        return false;
    }
    func(arg);
    sigaction(SIGBUS, &before, NULL);
    return true;
}
