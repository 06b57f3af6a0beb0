"""Write the corpus of fuzz_template from the templates that the tests use, a few constructs in each file."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "text"))
from template_cases import PARTS  # noqa: E402

corpus = HERE / "corpus/template"
corpus.mkdir(parents=True, exist_ok=True)
for name, cases in PARTS.items():
    step = 1 if name == "ERRORS" else 4
    for i in range(0, len(cases), 8 if name == "ERRORS" else step):
        (corpus / f"{name.lower()}-{i:03}").write_bytes("\n".join(cases[i:i + step]).encode())
