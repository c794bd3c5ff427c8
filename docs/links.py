"""Check the links inside a built site: python docs/links.py FOLDER. Needs no network."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places that links may lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.places |= {values[key] or "" for key in ("id", "name") if key in values}
        self.links += [values[key] or "" for key in ("href", "src") if key in values]


def broken(folder: Path) -> list[str]:
    """Return "page: link" for each link that leads nowhere in the folder."""
    paths = sorted(folder.resolve().rglob("*.html"))
    pages = {path: Page(path) for path in paths if "_static" not in path.parts}  # templates there
    return [
        f"{path.relative_to(folder.resolve())}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not _leads_somewhere(link, path, pages)
    ]


def _leads_somewhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True  # outside: not checked
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not parts.fragment or target not in pages:
        return target.exists()
    return unquote(parts.fragment) in pages[target].places


def main() -> None:
    folder = Path(sys.argv[1])
    if not (folder / "index.html").exists():
        sys.exit(f"{folder} has no site.")
    found = broken(folder)
    sys.exit("\n".join(["Links that lead nowhere:", *found]) if found else 0)


if __name__ == "__main__":
    main()
