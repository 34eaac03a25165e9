#include "src/driver/rpc.h"
