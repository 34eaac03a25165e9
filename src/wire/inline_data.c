#include "src/wire/inline_data.h"
