/* test_cpu_limit.c: CPU quotas of control groups, from folders that imitate the system's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/cpu_limit.h"

static char root[] = "/tmp/millrace-cpu-limit-XXXXXX";

/* Write a file below root, making its folders. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_root(void **state)
{
    (void)state;
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static const char V2_MOUNT[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
static const char V1_MOUNT[] = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                               "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

static void no_files_mean_no_quota(void **state)
{
    (void)state;
    assert_true(cpu_limit_quota(root) == 0);
}

static void v2_quota_of_the_group(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("proc/self/mountinfo", V2_MOUNT);
    put("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    assert_true(cpu_limit_quota(root) == 1.5);
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(cpu_limit_quota(root) == 0);
}

static void v2_quota_of_a_parent_counts(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("proc/self/mountinfo", V2_MOUNT);
    put("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    put("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    assert_true(cpu_limit_quota(root) == 2);
}

static void v1_quota(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/job\n");
    put("proc/self/mountinfo", V1_MOUNT);
    put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_true(cpu_limit_quota(root) == 0);
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_true(cpu_limit_quota(root) == 3);
}

static void container_that_sees_its_own_group_as_the_root(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/docker/x\n");
    put("proc/self/mountinfo", "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_true(cpu_limit_quota(root) == 0.5);
}

static void limit_is_at_least_one(void **state)
{
    (void)state;
    assert_true(cpu_limit() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_files_mean_no_quota, make_root, remove_root),
        cmocka_unit_test_setup_teardown(v2_quota_of_the_group, make_root, remove_root),
        cmocka_unit_test_setup_teardown(v2_quota_of_a_parent_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(v1_quota, make_root, remove_root),
        cmocka_unit_test_setup_teardown(container_that_sees_its_own_group_as_the_root, make_root, remove_root),
        cmocka_unit_test(limit_is_at_least_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
