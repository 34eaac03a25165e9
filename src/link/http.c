#include "src/link/http.h"
