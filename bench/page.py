"""Pages of docs/ of which a script writes a part, and their plots."""
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write_part(page, script, text):
    """Replace what stands between the lines `<!-- SCRIPT writes from here -->` and `<!-- to here -->` behind it."""
    begin, end = f"<!-- {script} writes from here -->", "<!-- to here -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"{page}: the lines '{begin}' and '{end}' are missing")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def make_venv(name, requirements):
    """The Python of build/NAME, which holds what bench/REQUIREMENTS pins."""
    command = [str(ROOT / "scripts/venv.sh"), str(ROOT / "build" / name), str(ROOT / "bench" / requirements)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def draw(plot, data, path):
    """Run the text of a script that draws the JSON on its standard input into the SVG file named by its argument."""
    python = make_venv("plot-venv", "requirements-plot.txt")
    subprocess.run([python, "-c", PLOT_BEGIN + plot + PLOT_END, str(path)], input=json.dumps(data), text=True, check=True)


PLOT_BEGIN = """
import json, sys
import matplotlib
matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "millrace"
import matplotlib.pyplot as plt
d = json.load(sys.stdin)
"""
PLOT_END = """
fig.savefig(sys.argv[1], metadata={"Date": None})
"""
