#include "src/wire/msgpack.h"
