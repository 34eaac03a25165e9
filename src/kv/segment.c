#include "src/kv/segment.h"
