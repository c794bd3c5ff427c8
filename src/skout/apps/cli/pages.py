"""What pages in one file share: their head, their style, and bars."""

from html import escape
from importlib.resources import files
from string import Template


def page_in_one_file(room: str, title: str, header: str, body: str) -> str:
    """Return a page that needs nothing else, with the style of all and page.css of its room.

    The title is text, the header and the body are HTML.
    """
    style = files(room).joinpath("page.css").read_text(encoding="utf-8")
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), style=style, header=header, body=body)


def bar(share: float, label: str = "") -> str:
    """Return a bar whose filled part is a share; the label is what is read aloud."""
    said = f' role="img" aria-label="{escape(label)}"' if label else ""
    return f'<div class="bar"{said}><i style="width:{100.0 * share:.0f}%"></i></div>'
