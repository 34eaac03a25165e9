#include "tests/conformance/fixture.h"
