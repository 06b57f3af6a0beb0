"""`millrace batch` killed at 200 random moments: every line once, and none computed again."""
import random
import shutil
import time

from batch_job import Job
from program import needs_smollm2

KILLS = 200


@needs_smollm2
def test_200_kills_lose_and_double_nothing(tmp_path):
    draw = random.Random(11)
    n_kill = n_job = 0
    while n_kill < KILLS:
        n_job += 1
        folder = tmp_path / str(n_job)
        folder.mkdir()
        job, recorded = Job(folder, 40), set()
        while True:
            process = job.start()
            n_before, limit = len(job.recorded()), time.monotonic() + draw.uniform(0, 3)
            while process.poll() is None and (time.monotonic() < limit or (len(job.recorded()) == n_before and draw.random() < 0.9)):
                time.sleep(0.005)
            process.kill()
            if process.wait() >= 0:
                break
            n_kill += 1
            now = set(job.recorded().values())
            assert recorded <= now or job.output.exists()
            recorded |= now
            if job.output.exists() and not job.state.exists():
                break
        job.check(recorded)
        shutil.rmtree(folder)
