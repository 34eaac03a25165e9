#include "src/watch/rules.h"

const struct kvc_rule kvc_rules[KVC_RULE_COUNT] = {
#define X(identifier, name, wrong, matter, source) {name, wrong, matter, source},
    KVC_RULES(X)
#undef X
};
