"""Some seconds of schemathesis over the description of the API."""
import pytest
from openapi_run import run
from server import needs_smollm2

pytestmark = needs_smollm2


def test_no_reply_is_a_server_error():
    pytest.importorskip("schemathesis")
    run(15, seed=1)
