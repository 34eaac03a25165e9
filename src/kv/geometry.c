#include "src/kv/geometry.h"
