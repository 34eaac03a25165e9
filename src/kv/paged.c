#include "src/kv/paged.h"
