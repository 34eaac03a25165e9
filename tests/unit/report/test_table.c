#include <criterion/criterion.h>

#include "src/report/table.h"

static const char *written(bool markdown)
{
    static struct kvc_buffer out;
    struct kvc_table table = {.columns = "lrl"};
    static const char *const cells[] = {
        "name", "ms", "note", "a|b", "1.5", "x\ny", "\xc3\xa9t\xc3\xa9", "10", ""};
    for (size_t i = 0; i < KVC_COUNT_OF(cells); i++)
        kvc_table_add(&table, "%s", cells[i]);
    out.size = 0;
    kvc_table_write(&table, markdown, &out);
    kvc_table_clear(&table);
    return kvc_buffer_text(&out);
}

Test(table, lined_up_by_characters)
{
    cr_assert_str_eq(written(false), "name   ms  note\n"
                                     "a|b   1.5  x y\n"
                                     "\xc3\xa9t\xc3\xa9    10\n");
}

Test(table, markdown)
{
    cr_assert_str_eq(written(true), "| name | ms | note |\n"
                                    "|---|---:|---|\n"
                                    "| a\\|b | 1.5 | x y |\n"
                                    "| \xc3\xa9t\xc3\xa9 | 10 |  |\n");
}
