"""Pages of HTML as trees that tests ask questions of; long parts, which are deflated, are put back."""

import base64
import html.parser
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

_PACKED = re.compile(r'<script type="text/plain" class="packed">([^<]*)</script>')
_ALONE = {"meta", "link", "br", "input", "img", "hr"}
_CLOSED_BY = {"li": {"li"}}  # lists of guards leave the end tag out


@dataclass
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def words(self) -> str:
        """The text, its spaces single."""
        return " ".join(self.text.split())

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def walk(self) -> Iterator["Element"]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str = "", *classes: str) -> list["Element"]:
        return [e for e in self.walk() if tag in ("", e.tag) and e.classes.issuperset(classes)]

    def one(self, tag: str = "", *classes: str) -> "Element":
        found = self.all(tag, *classes)
        assert len(found) == 1, f"{len(found)} of {tag}.{'.'.join(classes)}"
        return found[0]

    def id(self, name: str) -> "Element":
        return next(e for e in self.walk() if e.attributes.get("id") == name)


class _Parser(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.open[-1].tag in _CLOSED_BY.get(tag, ()):
            self.open.pop()
        made = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(made)
        if tag not in _ALONE:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("ul", "ol") and self.open[-1].tag == "li":
            self.open.pop()
        if tag not in _ALONE:
            closed = self.open.pop()
            assert closed.tag == tag, f"</{tag}> closes <{closed.tag} {closed.attributes}>"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def unpacked(text: str) -> str:
    """The page with its deflated parts in place."""
    while _PACKED.search(text):
        text = _PACKED.sub(lambda found: zlib.decompress(base64.b64decode(found[1])).decode(), text)
    return text


def parse(text: str) -> Element:
    """The tree of a page; an end tag that closes another element is an error."""
    parser = _Parser()
    parser.feed(unpacked(text))
    parser.close()
    return parser.root
