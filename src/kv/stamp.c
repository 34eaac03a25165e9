#include "src/kv/stamp.h"
