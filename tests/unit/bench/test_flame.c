/* Stacks in the forms that perf and offcputime print, and the graph of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/flame_recorder.h"

/* As `perf script -F comm,ip,sym` of perf 6.1 prints it. */
static const char perf_text[] = "kvconform \n"
                                "\tffffffff8113a2c4 copy_folio_from_iter_atomic\n"
                                "\tffffffff81207ee1 generic_perform_write\n"
                                "\t    7f0e1c4b9a3d __write+0x4d\n"
                                "\n"
                                "kvconform \n"
                                "\tffffffff81207ee1 generic_perform_write\n"
                                "\t    7f0e1c4b9a3d __write+0x4d\n"
                                "\n"
                                "perf \n"
                                "\t          1f77d [unknown]\n";

static const struct kvc_flame_node *child(const struct kvc_flame_node *node, const char *name)
{
    for (node = node->first_child; node != NULL; node = node->next)
        if (kvc_str_is(node->name, name))
            return node;
    return NULL;
}

Test(flame_tree, samples_of_perf)
{
    struct kvc_flame_tree tree = {0};
    kvc_flame_tree_add_perf(&tree, kvc_str_of(perf_text));
    cr_assert_eq(tree.root.weight, 3);
    const struct kvc_flame_node *command = child(&tree.root, "kvconform");
    cr_assert_eq(command->weight, 2);
    const struct kvc_flame_node *write =
        child(child(command, "__write+0x4d"), "generic_perform_write");
    cr_assert_eq(write->weight, 2);
    cr_assert_eq(child(write, "copy_folio_from_iter_atomic")->weight, 1);
    cr_assert_eq(child(child(&tree.root, "perf"), "[unknown]")->weight, 1);
    kvc_flame_tree_clear(&tree);
}

Test(flame_tree, folded_stacks)
{
    struct kvc_flame_tree tree = {0};
    kvc_flame_tree_add_folded(&tree, KVC_STR("a;b c;d 40\na;b c 2\n\nno weight\na;b c;d 3"));
    cr_assert_eq(tree.root.weight, 45);
    cr_assert_eq(child(child(&tree.root, "a"), "b c")->weight, 45);
    cr_assert_eq(child(child(child(&tree.root, "a"), "b c"), "d")->weight, 43);
    kvc_flame_tree_clear(&tree);
}

Test(flame_tree, any_text_is_read_to_its_end)
{
    struct kvc_flame_tree tree = {0};
    struct kvc_buffer deep = {0};
    for (int i = 0; i < 2000; i++)
        kvc_buffer_append_text(&deep, i == 0 ? "x\n" : "\t1 f\n");
    kvc_flame_tree_add_perf(&tree, (struct kvc_str){(const char *)deep.data, deep.size});
    kvc_flame_tree_add_perf(&tree, KVC_STR("\n\n\t\n \n\t12\n"));
    kvc_flame_tree_add_folded(&tree, KVC_STR(";;; 1\n 5\n;\n99999999999999999999999999999 x"));
    cr_assert_geq(tree.root.weight, 1);
    kvc_flame_tree_clear(&tree);
    kvc_buffer_clear(&deep);
}

Test(flame_tree, a_graph_of_hostile_names_is_xml)
{
    struct kvc_flame_tree tree = {0};
    struct kvc_buffer svg = {0};
    const struct kvc_str frames[] = {KVC_STR("a<b>&\"c\""), KVC_STR("\x1b[31m\xff")};
    kvc_flame_tree_add(&tree, frames, 2, 7);
    kvc_flame_tree_draw(&tree, "<title>", "samples", &svg);
    const char *text = kvc_buffer_text(&svg);
    cr_assert_not_null(strstr(text, "a&lt;b&gt;&amp;"), "%s", text);
    cr_assert_not_null(strstr(text, "&lt;title&gt;: 7 samples"), "%s", text);
    cr_assert_null(strchr(text, 0x1b));
    cr_assert_not_null(strstr(text, "</svg>"));
    kvc_flame_tree_clear(&tree);
    kvc_buffer_clear(&svg);
}

Test(flame_recorder, modes_have_names)
{
    struct kvc_error err = KVC_ERROR_INIT;
    enum kvc_flame_mode mode;
    cr_assert_eq(kvc_flame_mode_parse(KVC_STR("off-cpu"), &mode, &err), KVC_OK);
    cr_assert_eq(mode, KVC_FLAME_OFF_CPU);
    cr_assert_str_eq(kvc_flame_mode_tag(mode), "offcpu");
    cr_assert_eq(kvc_flame_mode_parse(KVC_STR("off"), &mode, &err), KVC_EUSAGE);
    cr_assert_str_eq(err.expected, "one of on-cpu, off-cpu, wakeup, offwake, wall, gil");
}

Test(flame_recorder, a_profiler_that_is_missing_is_named)
{
    struct kvc_error err = KVC_ERROR_INIT;
    setenv("PATH", "/nowhere", 1);
    cr_assert_eq(kvc_flame_mode_check(KVC_FLAME_ON_CPU, &err), KVC_EUSAGE);
    cr_assert_str_eq(err.what, "perf is not installed, and mode on-cpu needs it");
    cr_assert_not_null(strstr(err.expected, "linux-perf"));
}
