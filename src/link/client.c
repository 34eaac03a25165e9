#include "src/link/client.h"
