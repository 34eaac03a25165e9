#include "src/wire/dialect.h"
