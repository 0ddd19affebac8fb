"""What is a picture, and which pages of a document are asked for as pictures."""

from __future__ import annotations

import pytest

from paor.models import Picture
from paor.tools.documents.convert.registry import sniff_mime
from paor.tools.documents.tools import pages_in

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("asks", "pages"),
    [
        ("page 3", (3,)),
        ("What is on Page 2?", (2,)),
        ("pages 2, 4, and 6", (2, 4, 6)),
        ("pages 3 through 5", (3, 4, 5)),
        ("pages 2 & 3", (2, 3)),
        ("pages 2, 4-6 and 9", (2, 4, 5, 6, 9)),
        ("pages 9-7", (7, 8, 9)),
        ("pages 1-99999", tuple(range(1, 10))),
        ("page 123456", ()),
        ("the pages of 2026, in 3 parts", ()),
        ("page 0", (0,)),
        ("front page", ()),
        ("pages " + "1," * 20_000, (1,)),
    ],
)
def test_pages_are_those_that_a_request_names(asks: str, pages: tuple[int, ...]) -> None:
    assert pages_in(asks) == pages


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x08\0\0\0WEBPVP8 ", "image/webp"),
        (b"GIF8 is how they begin", ""),
        (b"\r\n" + PNG, ""),
        (b"\x89PNG", ""),
        (b"RIFF\x08\0\0\0WAVE", ""),
        (b"", ""),
    ],
)
def test_what_is_a_picture_is_one_rule(data: bytes, kind: str) -> None:
    """For what is shown and for what is read."""
    assert Picture(data=data).mime == kind
    assert (sniff_mime("a", data) == kind) is bool(kind)
