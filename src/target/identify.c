#include "src/target/identify.h"
