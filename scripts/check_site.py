"""Check every link, anchor, picture, style and script of a built site, without a network.

python scripts/check_site.py site

What leads outside (https://...) is listed as a count and not followed; everything that a page *loads* must
be in the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
FOLLOWED = {("a", "href")}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)")


@dataclass
class Page(HTMLParser):
    """What a page refers to, as (address, whether it is loaded), and the anchors that it has."""

    references: list[tuple[str, bool]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "link" and values.get("rel") in ("canonical", "prev", "next", "alternate"):
            return
        for pairs, loaded in ((LOADED, True), (FOLLOWED, False)):
            self.references += [
                (value, loaded) for name, value in values.items() if (tag, name) in pairs
            ]


def read(path: Path) -> Page:
    """The references and anchors of an HTML file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(site: Path) -> Iterator[str]:
    """What is wrong, one line each."""
    site = site.resolve()
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} has no pages"
    for path, page in pages.items():
        for address, loaded in page.references:
            fault = _fault(address, loaded, path, site, pages)
            if fault:
                yield f"{path.relative_to(site)}: {address}: {fault}"
    for path in sorted(site.rglob("*.css")):
        for address in CSS_URL.findall(path.read_text(encoding="utf-8")):
            if not address.startswith("data:") and not (path.parent / address).is_file():
                yield f"{path.relative_to(site)}: {address}: is not in the site"


def _fault(
    address: str, loaded: bool, path: Path, site: Path, pages: dict[Path, Page]
) -> str | None:
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from the network" if loaded else None
    if path.name == "404.html" and parts.path.startswith("/"):
        target = site / unquote(parts.path).lstrip("/")
    elif parts.path.startswith("/"):
        return "leaves the folder of the site"
    else:
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "is not in the site"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "has no such anchor"
    return None


def main(site: str) -> int:
    """Print what is wrong; 1 if anything is."""
    found = list(problems(Path(site)))
    for line in found:
        print(line, file=sys.stderr)
    count = len(list(Path(site).rglob("*.html")))
    print(f"{site}: {count} pages, {len(found)} broken references")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
