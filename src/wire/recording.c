#include "src/wire/recording.h"
