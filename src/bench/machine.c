#include "src/bench/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static int64_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return CPU_COUNT(&set);
    return sysconf(_SC_NPROCESSORS_ONLN);
}

/* The first "model name" of /proc/cpuinfo. */
static void read_cpu(char *cpu, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[256];
    while (cpu[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL)
            snprintf(cpu, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    fclose(file);
}

void kvc_machine_read(struct kvc_machine *machine)
{
    *machine = (struct kvc_machine){
        .cores = usable_cores(),
        .memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
    };
    read_cpu(machine->cpu, sizeof(machine->cpu));
    struct utsname name;
    if (uname(&name) == 0)
        snprintf(machine->kernel, sizeof(machine->kernel), "%.20s %.70s", name.sysname,
                 name.release);
}
