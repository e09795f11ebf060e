"""Write the recorded results of the demo as a page of the documentation.

python scripts/record_demo.py runs/record/results.json docs/demo.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rootpool.paper.demo_page import demo_page


def main(results: str, target: str) -> None:
    page = demo_page(json.loads(Path(results).read_text(encoding="utf-8")))
    page.write_markdown(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
