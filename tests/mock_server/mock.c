#include "tests/mock_server/mock.h"
