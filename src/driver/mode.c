#include "src/driver/mode.h"
