#include "src/driver/worker.h"
