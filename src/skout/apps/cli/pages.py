"""The parts that all pages share: the frame of a page, tables and bars."""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template


def page_in_one_file(room: str, title: str, header: str, body: str) -> str:
    """Return a page in one HTML file, with the style of all pages and page.css of its package.

    The title is text, the header and the body are HTML.
    """
    style = files(room).joinpath("page.css").read_text(encoding="utf-8")
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), style=style, header=header, body=body)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], wide: Collection[int] = (), name: str = ""
) -> str:
    """Return a table of cells in HTML, whose style may have a name.

    Columns in `wide`, and those without a title, which have bars, are hidden on phones.
    """
    marks = [
        ' class="wide"' if j in wide or (j and not title) else "" for j, title in enumerate(head)
    ]
    titles = "".join(f"<th scope=col{m}>{title}</th>" for m, title in zip(marks, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{m}>{cell}</td>" for m, cell in zip(marks, row, strict=True))
        + "</tr>"
        for row in rows
    )
    kind = f' class="{name}"' if name else ""
    return f"<table{kind}><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def bar(share: float, label: str = "") -> str:
    """Return a bar that is filled to a share, with a label for who cannot see it."""
    said = f' role="img" aria-label="{escape(label)}"' if label else ""
    return f'<div class="bar"{said}><i style="width:{100.0 * share:.0f}%"></i></div>'
