"""Pages of docs/ of which a script writes a part, between two lines that name it."""
import sys


def write_part(page, script, text):
    """Replace what stands between the lines `<!-- SCRIPT writes from here -->` and `<!-- to here -->` behind it."""
    begin, end = f"<!-- {script} writes from here -->", "<!-- to here -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"{page}: the lines '{begin}' and '{end}' are missing")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
