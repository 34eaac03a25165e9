#include "src/wire/handle.h"
