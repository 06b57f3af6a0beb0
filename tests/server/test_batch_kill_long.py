"""`millrace serve --state-dir` killed at 200 random moments: every line of a batch once, and none computed again."""
from batch_kills import kill_often


def test_200_kills_lose_and_double_nothing(tmp_path):
    kill_often(tmp_path, 200, seed=17)
