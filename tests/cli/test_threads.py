"""Threads on the CPUs that there are."""
import json
import os

from program import SMOLLM2, needs_smollm2, run

pytestmark = needs_smollm2

ROUNDS = 3


def answers_per_second(threads):
    r = run("run", "-m", SMOLLM2, "-p", "Count to a hundred.", "-n", "32", "--temp", "0", "-t", threads, "--json")
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)["timings"]["predicted_per_second"], r.stderr


def test_far_too_many_threads_cost_little_and_one_warning():
    """64 threads on a few CPUs: it was a quarter of the speed when all of them were woken for every product."""
    few, many = len(os.sched_getaffinity(0)), 64
    speeds = {few: [], many: []}
    for _ in range(ROUNDS):
        for threads, of in speeds.items():
            speed, errors = answers_per_second(threads)
            of.append(speed)
            assert errors.count("CPUs") == (threads > few), errors
    assert max(speeds[many]) * 2 > max(speeds[few]), speeds
