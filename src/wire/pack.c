#include "src/wire/pack.h"
