"""bench/peers.py: what is measured in parts stands on one page."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import peers  # noqa: E402

LIMITS = {"int8_gops": 300.0, "f32_gops": 100.0, "read_gb_s": 25.0, "isa": "avx2", "threads": 2, "clock_ghz": 3.0, "other_load_share": 0.0,
          "cpu": "a CPU"}


def cell(*tok_s):
    return {"tok_s": list(tok_s), "share": [0.5] * len(tok_s), "of": "MBU"}


def window(when, cases):
    return {"when": when, "limits": [LIMITS], "rounds": 1, "cases": cases}


def test_a_case_measured_again_replaces_what_stood_there():
    first = window("a", {"prompt of 512": {"millrace": cell(1)}, "answer, 1 sequence": {"millrace": cell(2), "llama.cpp": cell(3)}})
    second = window("b", {"answer, 1 sequence": {"millrace": cell(4)}})
    both = peers.merge([first], second)
    table = peers.table_of(both)
    assert table["prompt of 512"]["millrace"] == (0, cell(1))
    assert table["answer, 1 sequence"] == {"llama.cpp": (0, cell(3)), "millrace": (1, cell(4))}


def test_a_window_of_which_nothing_is_left_goes():
    first = window("a", {"prompt of 512": {"millrace": cell(1)}})
    assert peers.merge([first], window("b", {"prompt of 512": {"millrace": cell(2)}})) == [window("b", {"prompt of 512": {"millrace": cell(2)}})]


def test_a_later_round_replaces_the_same_window():
    first = window("a", {"prompt of 512": {"millrace": cell(1)}})
    again = window("a", {"prompt of 512": {"millrace": cell(1, 2)}})
    assert peers.merge([first], again) == [again]


def test_rows_stand_by_depth_and_number_of_sequences():
    names = [peers.case_name(("prefill", 1, 0), 512), *(peers.case_name(("decode", b, d), 512) for b, d in peers.CASES.values())]
    assert sorted(reversed(names), key=peers.case_order) == names


def test_each_figure_has_its_share_and_its_window():
    text = peers.page({"m.gguf": [window("a", {"prompt of 512": {"millrace": cell(1000)}}), window("b", {"answer, 1 sequence": {"vllm": cell(5)}})]})
    assert "| prompt of 512 | 1,000 = 50 % MBU (1) | - |" in text
    assert "| answer, 1 sequence | - | 5 = 50 % MBU (2) |" in text
    assert "(2) Limits in the same 1 rounds: int8 300 GOP/s, f32 100 GOP/s, read rate 25.0 GB/s" in text


def test_the_page_of_the_repository_is_what_its_figures_give():
    import json
    page = (ROOT / "docs/performance.md").read_text().partition(peers.OTHERS)[0]
    assert page.rstrip("\n") == peers.page(json.loads((ROOT / "docs/performance.json").read_text())).rstrip("\n")
