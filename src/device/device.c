#include "src/device/device.h"
