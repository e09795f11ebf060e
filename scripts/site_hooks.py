"""Marks in our pages that MkDocs replaces: tables from where they are measured, names from the code.

``<!-- table: benchmarks/results/pooling.md: Peak memory -->`` becomes the first table of that file after
the line that begins with "Peak memory", or its first table if nothing follows the path. No number is
copied by hand.

Verdicts in the results and the records get a colour.

``<!-- names of rootpool.linalg: rules -->`` becomes the reference of what the package exports from its
module ``rules``; without a module, of everything that it exports and that the page does not have yet.
So what is added to the ``__all__`` of a package is in the reference. ``<!-- index of rootpool.linalg -->``
becomes a table of the same names with the first line of each docstring.

Pages in ``docs/appendix`` are records that commands write. Each gets a title of its own, a line that says
what it is, and is left out of the search. Pictures lose their paper, so that they fit both colour
schemes; those that were drawn for the width of a phone get a class.
"""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import rootpool
from rootpool.report.plots.drawing import dark_rules, without_paper

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"^<!-- table: ([^:\n]+?)(?:: (.+?))? -->$", re.MULTILINE)
NAMES = re.compile(r"^<!-- names of ([\w.]+)(?:: (.+?))? -->$", re.MULTILINE)
# The first words of a cell that judges a claim, and the mark before a sentence that does.
VERDICT = re.compile(
    r"(?<=\| )(not seen|not testable|seen|opposite|not reproduced|reproduced|follows|does not follow"
    r"|[✓✗≈] (?:supported|contradicted|inconclusive))(?=[ ,:|])"
)
MARK = re.compile(r"(?<=^> )[✓✗≈](?= )", re.MULTILINE)
KINDS = {"✓": "seen", "✗": "opposite", "≈": "not", "reproduced": "seen", "follows": "seen"}
KINDS |= {"does": "opposite"}
INDEX = re.compile(r"^<!-- index of ([\w.]+) -->$", re.MULTILINE)

NARROW = re.compile(r'viewBox="0 0 3\d\d[ .]')
WIDE = ("api/transformations.md",)

RECORDS = {
    "paper": "Record: the paper, all networks",
    "why": "Record: the approximate root taken apart",
    "field": "Record: methods published since the paper",
    "demo": "Record: the demo",
    "birds": "Record: the paper's methods on frozen features of birds",
    "birds-poolings": "Record: heads and poolings on frozen features of birds",
    "birds-whole": "Record: a whole network fine-tuned on birds",
    "theory": "Record: statements about the gradient, each computed",
}
BANNER = """!!! note "Appendix"

    Full output of a command, kept for reference. [What it means](../results/{summary}.md) is shorter.
"""
VERDICTS = """
    Its verdicts merge several questions into one mark and compare small networks with published results on
    ImageNet. The summary separates the parts and says the scale of each.
"""
SUMMARIES = {"why": "approximation", "field": "followups", "demo": "paper", "theory": "paper"}
SUMMARIES |= dict.fromkeys(("birds", "birds-poolings", "birds-whole"), "birds")
JUDGED = ("why", "field")


def on_config(config: Any, **_: Any) -> Any:
    """Say on every page which version it describes."""
    config.copyright = f"rootpool {rootpool.__version__}, {config.copyright}"
    return config


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Take the paper from pictures that are ours."""
    for file in list(files):
        if file.src_uri.endswith(".svg") and not file.src_uri.startswith("assets/"):
            files.remove(file)
            drawn = for_both_schemes(file.content_string)
            files.append(File.generated(config, file.src_uri, content=drawn))
    return files


def for_both_schemes(svg: str) -> str:
    """A picture without its background, whose ink is light where the page is dark."""
    svg = without_paper(svg)
    if "prefers-color-scheme" in svg:
        return svg
    style = f"<style>{dark_rules()}</style>"
    return re.sub(r"<svg[^>]*>", lambda tag: tag[0] + style, svg, count=1)


def on_page_markdown(markdown: str, page: Page | None = None, **_: Any) -> str:
    """Put in the tables and the names, and mark the records."""
    if page is not None and page.file.src_uri.startswith("cookbook/"):
        page.meta["hide"] = ["toc"]  # there is one problem per page; the room is for code
    if page is not None and page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]  # the room is for a table
    if page is not None and page.file.src_uri.startswith("appendix/"):
        page.meta["search"] = {"exclude": True}
        markdown = record(markdown, Path(page.file.src_uri).stem)
    if page is not None and page.file.src_uri.startswith(("results/", "appendix/")):
        markdown = MARK.sub(_coloured, VERDICT.sub(_coloured, markdown))
    markdown = TABLE.sub(lambda match: table(match[1], match[2] or ""), markdown)
    listed = set(map(_last, re.findall(r"^::: (\S+)$", markdown, re.MULTILINE)))

    def directives(match: re.Match[str]) -> str:
        new = [
            name for name in names(match[1], (match[2] or "").split()) if _last(name) not in listed
        ]
        listed.update(map(_last, new))
        return "\n".join(f"::: {name}" for name in new)

    markdown = NAMES.sub(directives, markdown)
    shown = re.findall(r"^::: (\S+)$", markdown, re.MULTILINE)
    return INDEX.sub(lambda match: index(match[1], shown), markdown)


def on_page_content(html: str, page: Page, files: Files, **_: Any) -> str:
    """Mark the pictures that a phone shows as a whole."""

    def marked(tag: re.Match[str]) -> str:
        path = posixpath.join(posixpath.dirname(page.file.src_uri), tag[1])
        picture = files.get_file_from_path(posixpath.normpath(path))
        narrow = picture is not None and NARROW.search(picture.content_string)
        return tag[0].replace("<img", '<img class="narrow"') if narrow else tag[0]

    return re.sub(r'<img [^>]*src="([^":]+\.svg)"', marked, html)


def _last(name: str) -> str:
    """A name without its module: a package may export what a module of its page does."""
    return name.rpartition(".")[2]


def _coloured(match: re.Match[str]) -> str:
    first = match[0].partition(" ")[0]
    return f'<span class="verdict {KINDS.get(first, first)}">{match[0]}</span>'


def record(markdown: str, name: str) -> str:
    """A record with a title that no other page has, and a line that says what it is."""
    # GitHub needs the backslash before a bar in a cell of code; Python-Markdown prints it.
    markdown = re.sub(
        r"(?<=\| )`[^`\n]*`(?= \|)", lambda code: code[0].replace("\\|", "|"), markdown
    )
    if name not in RECORDS:
        return markdown
    banner = BANNER.format(summary=SUMMARIES.get(name, "paper")) + VERDICTS * (name in JUDGED)
    return re.sub(r"\A# .*\n", lambda _: f"# {RECORDS[name]}\n\n{banner}", markdown)


def index(package: str, shown: list[str]) -> str:
    """A table of what a page shows of a package, in its order, with the first line of each docstring."""
    folder = ROOT / "src" / Path(*package.split("."))
    lines: dict[str, str] = {}
    for file in folder.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                first = (ast.get_docstring(node) or "").partition("\n\n")[0]
                lines[node.name] = " ".join(first.split())
    rows = ["| name | what it is |", "|---|---|"]
    for full in shown:
        name = full.rpartition(".")[2]
        if name in lines:
            text = re.sub(r":math:`([^`]+)`", r"\\(\1\\)", lines[name])
            text = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", text).replace("|", "&#124;")
            rows.append(f"| [`{name}`][{full}] | {text} |")
    return "\n".join(rows)


def names(package: str, modules: list[str]) -> list[str]:
    """The full names of what ``package`` exports, from these of its modules or from all."""
    folder = ROOT / "src" / Path(*package.split("."))
    exported = public(folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py"))
    if modules:
        own = [name for module in modules for name in public(folder / f"{module}.py")]
        exported = [name for name in own if name in exported]
    # A function may hide the module of the same name; its own full name has both.
    hiding = {path.stem for path in folder.glob("*.py")}
    return [
        f"{package}.{name}.{name}" if name in hiding else f"{package}.{name}" for name in exported
    ]


def public(file: Path) -> list[str]:
    """The names in ``__all__`` of a module, or those that it defines without an underscore."""
    defined: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if ast.unparse(targets[0]) == "__all__":
                return list(ast.literal_eval(node.value))
            defined += [ast.unparse(target) for target in targets]
    return [name for name in defined if not name.startswith("_")]


def table(path: str, after: str = "") -> str:
    """The first table of a Markdown file of the repository after a line that begins with ``after``."""
    lines = iter((ROOT / path).read_text(encoding="utf-8").splitlines())
    if after and not any(line.lstrip("# ").startswith(after) for line in lines):
        raise PluginError(f"{path} has no line that begins with {after!r}")
    rows = itertools.dropwhile(lambda line: not line.startswith("|"), lines)
    found = "\n".join(itertools.takewhile(lambda line: line.startswith("|"), rows))
    if not found:
        raise PluginError(f"{path} has no table after {after!r}")
    return found
