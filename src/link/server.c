#include "src/link/server.h"
