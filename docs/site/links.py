"""Check that each link of a made site leads to a file of it, and to a place in that.

Sphinx checks what it makes itself. This looks at the result, with the manual pages, the theme and
what is handed out. Addresses of other sites are not called.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places in it that have a name."""

    def __init__(self, path: Path) -> None:
        """Read it."""
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what is needed of a tag."""
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def broken(site: Path) -> Iterator[str]:
    """Name each link that leads nowhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.is_file():
                yield f"{path.relative_to(site)}: {link}: there is no such file"
            elif place and target in pages and place not in pages[target].places:
                yield f"{path.relative_to(site)}: {link}: there is no such place"


def main() -> int:
    """Check the site in the folder that is named."""
    site = Path(sys.argv[1]).resolve()
    found = list(broken(site))
    count = sum(1 for _ in site.rglob("*.html"))
    print("\n".join([*found, f"{count} pages, {len(found)} broken links"]))
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
