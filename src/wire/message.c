#include "src/wire/message.h"
