"""lm-eval itself, as PyPI has it, through our server: log-likelihoods and length-normalised accuracy are those of `millrace eval`."""
from lm_eval_run import run
from program import needs_smollm2
from test_lm_eval import compare


@needs_smollm2
def test_lm_eval_through_the_server_finds_what_eval_finds(tmp_path):
    run(tmp_path)
    compare(tmp_path, tmp_path, 1e-5)
