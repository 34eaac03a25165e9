#include "src/kv/transfer.h"
