#include "src/wire/frames.h"
