"""Manual pages as pages of the site: docs/man/*.scd, as scdoc and mandoc make HTML of them.

A source of its own kind for Sphinx, so that links to it work here as they do on a forge.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.parsers import Parser

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# A section is a heading and what comes until the next one.
HEADING = re.compile(r'<section class="Sh">\s*<h[12] class="Sh" id="([^"]*)">(.*?)</h[12]>', re.S)
OTHER_PAGE = re.compile(r"<b>(memlease\w+)</b>\((\d)\)")


class ManualPage(Parser):
    """Reads scdoc's language."""

    supported = ("scdoc",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Make a section of each of the page's."""
        title = inputstring.split()[0]
        top = nodes.section(ids=[nodes.make_id(title)])
        top += nodes.title("", title)
        _, *parts = HEADING.split(_html_of(inputstring))
        for name, heading, body in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
            section = nodes.section(ids=[nodes.make_id(name)])
            section += nodes.title("", re.sub("<.*?>", "", heading).capitalize())
            section += nodes.raw("", body.rpartition("</section>")[0], format="html")
            top += section
        document += top


def _html_of(source: str) -> str:
    page = _output_of(["scdoc"], source)
    html = _output_of(["mandoc", "-Thtml", "-Ofragment"], page)
    return OTHER_PAGE.sub(r'<a href="\1.\2.html">\g<0></a>', html)


def _output_of(command: list[str], text: str) -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it; Sphinx calls this."""
    app.add_source_suffix(".scd", "scdoc")
    app.add_source_parser(ManualPage)
    return {"parallel_read_safe": True}
