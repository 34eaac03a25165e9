#include "src/target/target.h"
