#include "src/kv/dtype.h"
