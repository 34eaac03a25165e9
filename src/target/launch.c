#include "src/target/target_impl.h"
const struct kvc_target_ops kvc_target_launch = {.name = "launch"};
