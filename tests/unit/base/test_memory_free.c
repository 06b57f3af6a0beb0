/* test_memory_free.c: what the memory limits of control groups leave, from files in a folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/memory_free.h"

static char root[] = "/tmp/millrace-memory-XXXXXX";

/* A file below the root, its folders made. */
static void put(const char *name, const char *text)
{
    char path[512];
    const int n = snprintf(path, sizeof path, "%s/%s", root, name);
    assert_true(n > 0 && n < (int)sizeof path);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void no_group_states_no_limit(void **state)
{
    (void)state;
    assert_true(memory_group_free(root) == SIZE_MAX);
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/memory.max", "max\n");
    put("sys/fs/cgroup/a/memory.current", "5000\n");
    assert_true(memory_group_free(root) == SIZE_MAX);
}

static void the_tightest_group_around_it_counts(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/memory.max", "10000\n");
    put("sys/fs/cgroup/a/memory.current", "7000\n");
    put("sys/fs/cgroup/a/b/memory.max", "9000\n");
    put("sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_int_equal(memory_group_free(root), 3000);
}

static void cached_files_are_not_used(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "10000\n");
    put("sys/fs/cgroup/memory.current", "9500\n");
    put("sys/fs/cgroup/memory.stat", "anon 1000\nfile 8500\ninactive_file 6000\nactive_file 2000\n");
    assert_int_equal(memory_group_free(root), 8500);
}

static void the_first_version_of_groups(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "8000\n");
    put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "9000\n");
    put("sys/fs/cgroup/memory/x/memory.stat", "cache 500\ntotal_inactive_file 2500\n");
    assert_int_equal(memory_group_free(root), 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_group_states_no_limit, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_tightest_group_around_it_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(cached_files_are_not_used, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_first_version_of_groups, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
