"""
A document of every format with whatever it can hold, as other programs write it.

`MAKERS` makes one with some of the features that ``docs/formats.toml`` lists; nothing is in it that was not asked for, beside one plain
sentence.
"""

from __future__ import annotations

import email.message
import io
import re
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from copy import deepcopy
from pathlib import Path
from typing import Any

FORMATS: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "docs" / "formats.toml").read_text(encoding="utf-8")
)
FEATURES = FORMATS.pop("features")
PLAIN = "A plain sentence."
JAPANESE = "納期は三月三十一日です。支払いは三十日以内に行う。"

Features = AbstractSet[str]


def png() -> bytes:
    """Return a picture of one pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def packed(parts: dict[str, str | bytes], into: bytes = b"") -> bytes:
    """Return an archive of *parts*, or *into* with those parts put in place of its own."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        if into:
            with zipfile.ZipFile(io.BytesIO(into)) as source:
                for name in source.namelist():
                    if name not in parts:
                        target.writestr(name, source.read(name))
        for name, content in parts.items():
            target.writestr(name, content)
    return written.getvalue()


def part(data: bytes, name: str) -> str:
    """Return a part of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


# -- Word ------------------------------------------------------------------------------------------------------------

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
NAMES = " ".join(
    f'xmlns:{name}="{space}"'
    for name, space in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "r": _OFFICE,
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "pic": "http://schemas.openxmlformats.org/drawingml/2006/picture",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
        "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "v": "urn:schemas-microsoft-com:vml",
        "o": "urn:schemas-microsoft-com:office:office",
    }.items()
)
_SMART = f"<dgm:dataModel {NAMES}><dgm:ptLst><dgm:pt><dgm:t><a:p><a:r><a:t>smart words</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"

_CHART = (
    f"<c:chartSpace {NAMES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sold by month</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    "<c:plotArea><c:lineChart><c:ser><c:tx><c:v>Sales</c:v></c:tx><c:cat><c:numRef><c:numCache><c:formatCode>d/m/yy</c:formatCode>"
    '<c:pt idx="0"><c:v>46143</c:v></c:pt></c:numCache></c:numRef></c:cat><c:val><c:numRef><c:numCache>'
    '<c:pt idx="0"><c:v>1.5</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:lineChart></c:plotArea></c:chart></c:chartSpace>'
)


def _p(inner: str, look: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{look}</w:pPr>' if look else ''}{inner}</w:p>"


def _r(words: str, look: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{look}</w:rPr>" if look else ""}<w:t xml:space="preserve">{words}</w:t></w:r>'


def _field(kind: str, more: str = "") -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}">{more}</w:fldChar></w:r>'


def _numbered(level: int, words: str) -> str:
    return _p(_r(words), f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>')


def _cell(words: str, look: str = "") -> str:
    return f"<w:tc><w:tcPr>{look}</w:tcPr>{_p(_r(words))}</w:tc>"


_WIDE = '<w:gridSpan w:val="2"/>'
_HIGH = '<w:vMerge w:val="restart"/>'
_BOX = f"<wps:txbx><w:txbxContent>{_p(_r('box words'))}</w:txbxContent></wps:txbx>"
_OLD_BOX = f"<w:pict><v:textbox><w:txbxContent>{_p(_r('box words'))}</w:txbxContent></v:textbox></w:pict>"
_DOCX = {
    "number": "".join(
        _numbered(level, words) for level, words in ((0, "one"), (1, "in one"), (0, "two"), (1, "numbered words"))
    ),
    "footnote": _p(_r("See") + '<w:r><w:footnoteReference w:id="2"/></w:r>'),
    "comment": _p(
        _r("Talk ") + '<w:commentRangeStart w:id="0"/>' + _r("about this") + '<w:commentRangeEnd w:id="0"/>'
        '<w:r><w:commentReference w:id="0"/></w:r>'
    ),
    "field": _p(
        _r("dated ") + _field("begin") + "<w:r><w:instrText>DATE</w:instrText></w:r>" + _field("separate")
        + _r("1 May 2026") + _field("end") + _r(" field")
    ),
    "form": _p(
        _r("agreed ") + _field("begin", '<w:ffData><w:checkBox><w:default w:val="1"/></w:checkBox></w:ffData>') + _field("end")
        + _r(" chosen ")
        + _field("begin", '<w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="first"/><w:listEntry w:val="second"/></w:ddList></w:ffData>')
        + _field("end")
    ),
    "box": _p(
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing>{_BOX}</w:drawing></mc:Choice>'
        f"<mc:Fallback>{_OLD_BOX}</mc:Fallback></mc:AlternateContent></w:r>"
    ),
    "changed": _p(
        f'<w:ins w:id="1" w:author="a">{_r("added words")}</w:ins>'
        '<w:del w:id="2" w:author="a"><w:r><w:delText>removed words</w:delText></w:r></w:del>'
    ),
    "struck": _p(_r("struck words", "<w:strike/>")),
    "hidden": _p(_r("hidden words", "<w:vanish/>")),
    "merged": f"<w:tbl><w:tr>{_cell('wide', _WIDE)}{_cell('high', _HIGH)}</w:tr>"
    f"<w:tr>{_cell('low')}{_cell('low2')}{_cell('', '<w:vMerge/>')}</w:tr></w:tbl>",
    "nested": f"<w:tbl><w:tr><w:tc><w:tbl><w:tr>{_cell('inner cell')}</w:tr></w:tbl>{_p('')}</w:tc></w:tr></w:tbl>",
    "raised": _p(_r("10") + _r("3", '<w:vertAlign w:val="superscript"/>')),
    "ruby": _p(f"<w:r><w:ruby><w:rt>{_r('kan')}</w:rt><w:rubyBase>{_r('漢')}</w:rubyBase></w:ruby></w:r>"),
    "formula": _p("<m:oMath><m:r><m:t>x=</m:t></m:r><m:r><m:t>y</m:t></m:r></m:oMath>"),
    "picture": _p("<w:r><w:drawing><a:graphic><pic:pic/></a:graphic></w:drawing></w:r>"),
    "words": _p('<w:r><w:drawing><wp:docPr id="1" name="x" descr="a red pump"/></w:drawing></w:r>'),
    "chart": _p('<w:r><w:drawing><c:chart r:id="chart"/></w:drawing></w:r>'),
    "drawing": _p('<w:r><w:drawing><dgm:relIds r:dm="smart"/></w:drawing></w:r>'),
    "embedded": _p("<w:r><w:object><o:OLEObject/></w:object></w:r>"),
}  # fmt: skip


def docx(features: Features) -> bytes:
    """Return a Word document."""
    body = _p(_r(PLAIN)) + "".join(text for name, text in _DOCX.items() if name in features)
    levels = "".join(
        f'<w:lvl w:ilvl="{place}"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="{text}"/></w:lvl>'
        for place, text in enumerate(("%1.", "%1.%2"))
    )
    inner = {
        "numbering": f'<w:numbering {NAMES}><w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
        "footnotes": f'<w:footnotes {NAMES}><w:footnote w:id="2">{_p(_r("footnote words"))}</w:footnote></w:footnotes>',
        "comments": f'<w:comments {NAMES}><w:comment w:id="0" w:author="Ann">{_p(_r("comment words"))}</w:comment></w:comments>',
        "header": f"<w:hdr {NAMES}>{_p(_r('header words'))}</w:hdr>",
    }
    wanted = {"number": "numbering", "footnote": "footnotes", "comment": "comments", "header": "header"}
    inner = {name: inner[name] for feature, name in wanted.items() if feature in features}
    types = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_WORD}.{name}+xml"/>' for name in inner
    )
    relations = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{name}" Target="{name}.xml"/>' for name in inner
    )
    main = f'<Override PartName="/word/document.xml" ContentType="{_WORD}.document.main+xml"/>'
    return packed({
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f"{main}{types}</Types>",
        "_rels/.rels": f'<Relationships xmlns="{_RELS}"><Relationship Id="r" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {NAMES}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_RELS}">{relations}'
        f'<Relationship Id="smart" Type="{_OFFICE}/diagramData" Target="smart.xml"/>'
        f'<Relationship Id="chart" Type="{_OFFICE}/chart" Target="charts/chart1.xml"/></Relationships>',
        "word/smart.xml": _SMART,
        "word/charts/chart1.xml": _CHART,
        **{f"word/{name}.xml": text for name, text in inner.items()},
    })  # fmt: skip


# -- Excel and PowerPoint --------------------------------------------------------------------------------------------


def xlsx(features: Features) -> bytes:
    """Return a workbook, as XlsxWriter makes it."""
    import xlsxwriter

    written = io.BytesIO()
    book = xlsxwriter.Workbook(written, {"in_memory": True})
    sheet = book.add_worksheet("Plan")
    sheet.write(0, 0, PLAIN)
    sheet.write(1, 1, "words")
    if "header" in features:
        sheet.set_header('&L&"Arial,Bold"&12header words')
    if "comment" in features:
        sheet.write_comment("B2", "comment words", {"author": "Ann"})
    if "box" in features:
        sheet.insert_textbox("F9", "box words")
    if "hidden" in features:
        sheet.write(3, 0, "hidden words")
        sheet.set_row(3, None, None, {"hidden": True})
    if "merged" in features:
        sheet.merge_range("A6:B6", "wide")
    if "format" in features:
        for column, (value, form) in enumerate(
            ((1067, "00000"), (18450.5, "[$€-2]#,##0.00"), (0.25555, "0.0%"))
        ):
            sheet.write_number(7, column, value, book.add_format({"num_format": form}))
    if "calculated" in features:
        sheet.write_formula("A10", "=NOW()", None, "")
    if "picture" in features or "drawing" in features:
        sheet.insert_image("F20", "a.png", {"image_data": io.BytesIO(png()), "decorative": True})
    if "words" in features:
        words = {"image_data": io.BytesIO(png()), "description": "a red pump"}
        sheet.insert_image("F25", "b.png", words)
    if "struck" in features:
        sheet.write(11, 0, "struck words", book.add_format({"font_strikeout": True}))
    if "chart" in features:
        chart = book.add_chart({"type": "line"})
        chart.add_series({"values": "=Plan!$A$1:$A$2"})
        chart.set_title({"name": "Sold by month"})
        sheet.insert_chart("F30", chart)
    book.close()
    data = written.getvalue()
    source, drawing, relations = (
        "xl/worksheets/sheet1.xml",
        "xl/drawings/drawing1.xml",
        "xl/drawings/_rels/drawing1.xml.rels",
    )
    if "calculated" in features:
        data = packed({source: re.sub("</f><v>[^<]*</v>", "</f>", part(data, source))}, data)
    if "embedded" in features:
        ole = '<oleObjects><oleObject progId="x" shapeId="1"/></oleObjects></worksheet>'
        data = packed({source: part(data, source).replace("</worksheet>", ole)}, data)
    if "drawing" in features:
        more = f'<Relationship Id="smart" Type="{_OFFICE}/diagramData" Target="../diagrams/data1.xml"/></Relationships>'
        changed = part(data, relations).replace("</Relationships>", more)
        bare = part(data, drawing)
        if "picture" not in features:
            bare = re.sub("<xdr:pic>(?:(?!</xdr:pic>|a red pump).)*</xdr:pic>", "", bare, flags=re.DOTALL)
        data = packed({relations: changed, drawing: bare, "xl/diagrams/data1.xml": _SMART}, data)
    return data


_SLIDE = {
    "number": '<a:p><a:pPr><a:buAutoNum type="alphaLcParenBoth"/></a:pPr><a:r><a:t>one</a:t></a:r></a:p>'
    '<a:p><a:pPr><a:buAutoNum type="alphaLcParenBoth"/></a:pPr><a:r><a:t>numbered words</a:t></a:r></a:p>',
    "struck": '<a:p><a:r><a:rPr strike="sngStrike"/><a:t>struck words</a:t></a:r></a:p>',
    "raised": '<a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>3</a:t></a:r></a:p>',
    "box": "<a:p><a:r><a:t>box words</a:t></a:r></a:p>",
    "field": '<a:p><a:r><a:t>dated </a:t></a:r><a:fld id="{00000000-0000-0000-0000-000000000000}" type="datetime"><a:t>1 May 2026</a:t></a:fld><a:r><a:t> field</a:t></a:r></a:p>',
    "formula": "<a:p><m:oMath><m:r><m:t>x=y</m:t></m:r></m:oMath></a:p>",
    "header": "<a:p><a:r><a:t>footer words</a:t></a:r></a:p>",
}


def pptx(features: Features) -> bytes:
    """Return a slide deck, as python-pptx makes it."""
    import pptx as library
    from lxml import etree
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI
    from pptx.util import Inches

    deck = library.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    at = (Inches(1),) * 4
    box = slide.shapes.add_textbox(*at).text_frame
    box.text = PLAIN
    for name, text in _SLIDE.items():
        if name in features:
            for item in etree.fromstring(f"<x {NAMES}>{text}</x>"):
                box._txBody.append(item)
    if "merged" in features:
        table = slide.shapes.add_table(1, 2, *at).table
        table.cell(0, 0).text = "wide"
        table.cell(0, 0).merge(table.cell(0, 1))
    if "picture" in features or "words" in features:
        picture = slide.shapes.add_picture(io.BytesIO(png()), *at)
        picture._element.nvPicPr.cNvPr.set("descr", "a red pump" if "words" in features else "")
        if "picture" not in features:
            picture._element.remove(picture._element.blipFill)
    if "chart" in features:
        data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
        data.categories = ["May"]
        data.add_series("Sales", (1.5,))
        slide.shapes.add_chart(XL_CHART_TYPE.LINE, *at, data)
    if "design" in features:
        design = slide.slide_layout._element.cSld.spTree
        design.append(deepcopy(slide.shapes[0]._element))
        design[-1].txBody.p_lst[0].r_lst[0].text = "design words"
    if "media" in features:
        movie = slide.shapes.add_movie(io.BytesIO(b"film"), *at, poster_frame_image=io.BytesIO(png()))
        if "picture" not in features:
            for blip in movie._element.iter("{http://schemas.openxmlformats.org/drawingml/2006/main}blip"):
                blip.getparent().remove(blip)
    if "embedded" in features:
        shown = slide.shapes.add_ole_object(io.BytesIO(b"a"), "Package", *at)
        if "picture" not in features:
            for blip in shown._element.iter("{http://schemas.openxmlformats.org/drawingml/2006/main}blip"):
                blip.getparent().remove(blip)
    if "speaker" in features:
        slide.notes_slide.notes_text_frame.text = "speaker words"
    if "comment" in features:
        text = '<p:cmLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"><p:cm><p:text>comment words</p:text></p:cm></p:cmLst>'
        made = Part(
            PackURI("/ppt/comments/comment1.xml"), "application/xml", slide.part.package, text.encode()
        )
        slide.part.relate_to(made, f"{_OFFICE}/comments")
    if "drawing" in features:
        made = Part(
            PackURI("/ppt/diagrams/data1.xml"), "application/xml", slide.part.package, _SMART.encode()
        )
        key = slide.part.relate_to(made, f"{_OFFICE}/diagramData")
        frame = slide.shapes.add_table(1, 1, *at)._element
        del frame.graphic.graphicData[:]
        frame.graphic.graphicData.set("uri", "http://schemas.openxmlformats.org/drawingml/2006/diagram")
        frame.graphic.graphicData.append(etree.fromstring(f'<x {NAMES}><dgm:relIds r:dm="{key}"/></x>')[0])
    if "hidden" in features:
        other = deck.slides.add_slide(deck.slide_layouts[5])
        other.shapes.title.text = "hidden words"
        other._element.set("show", "0")
    written = io.BytesIO()
    deck.save(written)
    return written.getvalue()


# -- OpenDocument and books ------------------------------------------------------------------------------------------

_OPEN = "urn:oasis:names:tc:opendocument:xmlns:"
_OPEN_NAMES = " ".join(
    [
        *(f'xmlns:{name}="{_OPEN}{name}:1.0"' for name in ("office", "text", "table", "style", "form", "presentation")),
        f'xmlns:draw="{_OPEN}drawing:1.0" xmlns:svg="{_OPEN}svg-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"',
    ]
)  # fmt: skip
_LEVELS = "".join(
    f'<text:list-level-style-number text:level="{level}" style:num-format="1" text:display-levels="{level}"/>'
    for level in (1, 2)
)
_LOOKS = (
    f'<text:list-style style:name="L">{_LEVELS}</text:list-style>'
    '<style:style style:name="up"><style:text-properties style:text-position="super 58%"/></style:style>'
    '<style:style style:name="struck"><style:text-properties style:text-line-through-style="solid"/></style:style>'
    '<style:style style:name="hide"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
)


def _odf_cell(words: str, look: str = "") -> str:
    return f"<table:table-cell {look}><text:p>{words}</text:p></table:table-cell>"


_ODF_WIDE, _ODF_HIGH = 'table:number-columns-spanned="2"', 'table:number-rows-spanned="2"'
_COVERED = "<table:covered-table-cell/>"
_ODF_MERGED = (
    f"<table:table-row>{_odf_cell('wide', _ODF_WIDE)}{_COVERED}"
    f"{_odf_cell('high', _ODF_HIGH)}</table:table-row>"
    f"<table:table-row>{_odf_cell('low')}{_odf_cell('low2')}{_COVERED}</table:table-row>"
)
_REMARK = "<office:annotation><dc:creator>Ann</dc:creator><dc:date>2026</dc:date><text:p>comment words</text:p></office:annotation>"
_ODT = {
    "number": '<text:list text:style-name="L"><text:list-item><text:p>one</text:p></text:list-item></text:list><text:p>between</text:p>'
    '<text:list text:style-name="L" text:continue-numbering="true"><text:list-item><text:p>two</text:p><text:list><text:list-item>'
    "<text:p>numbered words</text:p></text:list-item></text:list></text:list-item></text:list>",
    "footnote": "<text:p>See<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>footnote words</text:p></text:note-body></text:note></text:p>",
    "comment": f"<text:p>about this{_REMARK}</text:p>",
    "field": "<text:p>dated <text:date>1 May 2026</text:date> field</text:p>",
    "form": '<office:forms><form:form><form:text form:name="amount" form:current-value="18450"/></form:form></office:forms>',
    "box": "<text:p><draw:frame><draw:text-box><text:p>box words</text:p></draw:text-box></draw:frame></text:p>",
    "changed": '<text:p><text:change-start text:change-id="i"/>added words<text:change-end text:change-id="i"/><text:change text:change-id="d"/></text:p>',
    "struck": '<text:p><text:span text:style-name="struck">struck words</text:span></text:p>',
    "hidden": '<text:p><text:hidden-text text:condition="x" text:string-value="hidden words"/></text:p>',
    "merged": f"<table:table>{_ODF_MERGED}</table:table>",
    "nested": "<table:table><table:table-row><table:table-cell><table:table><table:table-row>"
    f"{_odf_cell('inner cell')}</table:table-row></table:table></table:table-cell></table:table-row></table:table>",
    "raised": '<text:p>10<text:span text:style-name="up">3</text:span></text:p>',
    "ruby": "<text:p><text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby></text:p>",
    "picture": "<text:p><draw:frame><draw:image/></draw:frame></text:p>",
    "words": "<text:p><draw:frame><svg:desc>a red pump</svg:desc></draw:frame></text:p>",
}
_CHANGES = (
    '<text:tracked-changes><text:changed-region text:id="i"><text:insertion/></text:changed-region><text:changed-region text:id="d">'
    "<text:deletion><text:p>removed words</text:p></text:deletion></text:changed-region></text:tracked-changes>"
)
_INNER = {
    "formula": '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi><mo>=</mo><mi>y</mi></math>',
    "chart": f'<chart:chart xmlns:chart="{_OPEN}chart:1.0" {_OPEN_NAMES}><chart:title><text:p>Sold by month</text:p></chart:title>'
    f'<table:table table:name="local-table"><table:table-row>{_odf_cell("Sales")}<table:table-cell office:value="1.5"/></table:table-row>'
    "</table:table></chart:chart>",
    "embedded": "<other/>",
}


def _objects(features: Features) -> str:
    objects = (
        f'<draw:object xlink:href="./Object {name}"/>' for name in ("formula", "chart") if name in features
    )
    return f"<text:p><draw:frame>{''.join(objects)}</draw:frame></text:p>"


def _opendocument(kind: str, body: str, features: Features) -> bytes:
    head = "<style:header><text:p>header words</text:p></style:header>" if "header" in features else ""
    names = {"odt": "text", "ods": "spreadsheet", "odp": "presentation"}
    inner = names[kind]
    return packed({
        "mimetype": f"application/vnd.oasis.opendocument.{inner}",
        "content.xml": f"<office:document-content {_OPEN_NAMES}><office:automatic-styles>{_LOOKS}</office:automatic-styles>"
        f"<office:body><office:{inner}>{body}</office:{inner}></office:body></office:document-content>",
        "styles.xml": f"<office:document-styles {_OPEN_NAMES}><office:master-styles><style:master-page>{head}"
        "</style:master-page></office:master-styles></office:document-styles>",
        **{f"Object {name}/content.xml": text for name, text in _INNER.items() if name in features},
    })  # fmt: skip


def odt(features: Features) -> bytes:
    """Return a text document."""
    body = f"<text:p>{PLAIN}</text:p>" + "".join(text for name, text in _ODT.items() if name in features)
    return _opendocument(
        "odt", (_CHANGES if "changed" in features else "") + body + _objects(features), features
    )


def ods(features: Features) -> bytes:
    """Return a sheet."""
    remark = _REMARK if "comment" in features else ""
    rows = f"<table:table-row><table:table-cell>{remark}<text:p>{PLAIN}</text:p></table:table-cell></table:table-row>"
    if "hidden" in features:
        rows += f'<table:table-row table:visibility="collapse">{_odf_cell("hidden words")}</table:table-row>'
    if "merged" in features:
        rows += _ODF_MERGED
    if "format" in features:
        rows += f"<table:table-row>{_odf_cell('01067')}{_odf_cell('18.450,50 €')}</table:table-row>"
    if "words" in features:
        rows += f"<table:table-row><table:table-cell>{_ODT['words']}</table:table-cell></table:table-row>"
    if "computed" in features:
        rows += '<table:table-row><table:table-cell office:value="12.5"/></table:table-row>'
    if "day" in features:
        rows += '<table:table-row><table:table-cell office:date-value="2026-05-01"><text:p>01.05.26</text:p></table:table-cell></table:table-row>'
    rows += f"<table:table-row><table:table-cell>{_objects(features)}</table:table-cell></table:table-row>"
    if "picture" in features:
        rows += "<table:table-row><table:table-cell><draw:frame><draw:image/></draw:frame></table:table-cell></table:table-row>"
    return _opendocument("ods", f'<table:table table:name="Plan">{rows}</table:table>', features)


def odp(features: Features) -> bytes:
    """Return slides."""
    body = f"<draw:frame><draw:text-box><text:p>{PLAIN}</text:p></draw:text-box></draw:frame>"
    if "merged" in features:
        body += f"<draw:frame><table:table>{_ODF_MERGED}</table:table></draw:frame>"
    names = ("picture", "words", "number", "box", "field", "raised", "struck")
    body += "".join(_ODT[name] for name in names if name in features)
    body += _REMARK if "comment" in features else ""
    if "speaker" in features:
        body += "<presentation:notes><text:p>speaker words</text:p></presentation:notes>"
    body += _objects(features)
    body = f"<draw:page>{body}</draw:page>"
    if "hidden" in features:
        body += '<draw:page draw:style-name="hide"><text:p>hidden words</text:p></draw:page>'
    return _opendocument("odp", body, features)


_HTML = {
    "number": "<ol style='list-style-type: lower-alpha'><li>one<li>numbered words</ol>",
    "form": "<p>Name: <input name=n value=Jo> <input type=checkbox checked> <select><option>first<option selected>second</select> <textarea>free words</textarea>",
    "changed": "<p><ins>added words</ins> <del>removed words</del></p>",
    "hidden": "<p hidden>hidden words</p>",
    "merged": "<table><tr><td colspan=2>wide<td rowspan=2>high<tr><td>low<td>low2</table>",
    "nested": "<table><tr><td><table><tr><td>inner cell</table></table>",
    "raised": "<p>10<sup>3</sup></p>",
    "ruby": "<p><ruby>漢<rt>kan</rt></ruby></p>",
    "formula": "<p><math><mi>x</mi><mo>=</mo><mi>y</mi></math></p>",
    "picture": "<img src=a.png>",
    "words": "<p role=note><img alt='a red pump' src=a.png></p>",
    "media": "<video>film</video>",
    "embedded": "<iframe src=other.html></iframe>",
    "around": "<nav>menu</nav>",
}


def html(features: Features) -> bytes:
    """Return a page."""
    body = f"<p>{PLAIN}</p>" + "".join(text for name, text in _HTML.items() if name in features)
    if "encoding" not in features:
        return f"<html><meta charset=utf-8>{body}</html>".encode()
    return f"<html>{body}<p>{JAPANESE}</p></html>".encode("shift_jis")


def epub(features: Features) -> bytes:
    """Return a book."""
    apart = '<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>' if "apart" in features else ""
    return packed({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:c"><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>',
        "b.opf": f'<package><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>{apart}</manifest><spine><itemref idref="a"/></spine></package>',
        "a.xhtml": html(features),
        "b.xhtml": "<p>words apart</p>",
    })  # fmt: skip


# -- PDF, RTF, mails and texts ---------------------------------------------------------------------------------------


def _marked(found: re.Match[str]) -> str:
    stream = f"/Figure<</MCID 0>>BDC EMC {found[1]}"
    return f"<</Length {len(stream)}>>stream\n{stream}\n"


def pdf(features: Features) -> bytes:
    """Return two pages, written by hand."""
    form = {"form": ("amount", "18450.00", 690, ""), "hidden": ("secret", "hidden words", 500, "/F 2")}
    fields, marks = [], []
    for name, (label, value, y, flag) in form.items():
        if name in features:
            fields.append(
                f"<</Type/Annot/Subtype/Widget/FT/Tx/T({label})/V({value})/DA(/F 12 Tf)/Rect[200 {y} 400 {y + 25}]{flag}>>"
            )
    if "comment" in features:
        marks.append("<</Type/Annot/Subtype/Text/T(Ann)/Contents(comment words)/Rect[9 9 20 20]>>")
    if "media" in features:
        marks.append("<</Type/Annot/Subtype/Movie/Rect[9 9 20 20]>>")
    if "struck" in features:
        marks.append(
            "<</Type/Annot/Subtype/StrikeOut/Rect[50 600 90 612]/QuadPoints[50 612 90 612 50 600 90 600]>>"
        )
    head = "BT /F 9 Tf 50 780 Td (header words) Tj ET " if "header" in features else ""
    lines = "BT /F 12 Tf 50 700 Td (%s) Tj 0 -90 Td (%s) Tj 0 -20 Td (%s) Tj 0 -20 Td (%s) Tj 0 -20 Td (%s) Tj ET "
    first = head + lines % ("Amount due:", PLAIN, "one", "and one", "more")
    if "raised" in features:
        first += "BT /F 12 Tf 50 450 Td (the number 10) Tj /F 7 Tf 4 Ts (3) Tj ET "
    if "picture" in features:
        first += "q 9 0 0 9 300 300 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \xff EI Q "
    others = (
        ("Second", "Another sentence.", "of", "which the", "words differ"),
        ("Third page", "A last one.", "with", "other ends", "again"),
    )
    streams = [first, *(head + lines % words for words in others)]
    count = len(streams)
    named = [*fields, *marks]
    start = 4 + 2 * count
    refs = [f"{start + place} 0 R" for place in range(len(named))]
    attached = ""
    objects = [
        "",
        f"<</Type/Pages/Kids[{' '.join(f'{4 + 2 * n} 0 R' for n in range(count))}]/Count {count}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, stream in enumerate(streams):
        annots = f"/Annots[{' '.join(refs)}]" if number == 0 else ""
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {5 + 2 * number} 0 R{annots}/Resources<</Font<</F 3 0 R>>>>>>"
        )
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    objects += named
    if "embedded" in features:
        objects.append("<</Type/EmbeddedFile/Length 4>>stream\n<a/>\nendstream")
        file = f"<</Type/Filespec/F(terms.xml)/UF(terms.xml)/EF<</F {len(objects)} 0 R>>>>"
        attached = f"/Names<</EmbeddedFiles<</Names[(terms.xml) {file}]>>>>"
    if "words" in features:
        root = len(objects) + 1
        objects.append(f"<</Type/StructTreeRoot/K {root + 1} 0 R/ParentTree<</Nums[0[{root + 1} 0 R]]>>>>")
        objects.append(f"<</Type/StructElem/S/Figure/P {root} 0 R/Pg 4 0 R/K 0/Alt(a red pump)>>")
        attached += f"/MarkInfo<</Marked true>>/StructTreeRoot {root} 0 R"
        objects[3] = objects[3].replace("/Parent", "/StructParents 0/Parent")
        objects[4] = re.sub("<</Length \\d+>>stream\n(.*)\n", _marked, objects[4], flags=re.DOTALL)
    forms = (
        f"/AcroForm<</Fields[{' '.join(refs[: len(fields)])}]/DR<</Font<</F 3 0 R>>>>/DA(/F 12 Tf)>>"
        if fields
        else ""
    )
    objects[0] = f"<</Type/Catalog/Pages 2 0 R{attached}{forms}>>"
    written, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(written)}\n%%EOF".encode()
    return written + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode() + table + end


_RTF = {
    "number": r"{\listtext 2.1\tab}numbered words\par ",
    "header": r"{\header header words\par}",
    "footnote": r"See{\footnote footnote words}\par ",
    "comment": r"{\*\annotation comment words}\par ",
    "form": r"{\field{\*\fldinst FORMTEXT}{\fldrslt filled form words}}\par ",
    "merged": r"\trowd\clmgf\cellx1\clmrg\cellx2 wide\cell \cell\row ",
    "formula": r"{\moMath x}\par ",
    "field": r"dated {\field{\*\fldinst DATE}{\fldrslt 1 May 2026}} field\par ",
    "box": r"{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt box words}}}\par ",
    "changed": r"{\revised added words} {\deleted removed words}\par ",
    "struck": r"{\strike struck words}\par ",
    "hidden": r"{\v hidden words}\par ",
    "raised": r"10{\super 3}\par ",
    "picture": r"{\pict 00ff}\par ",
    "embedded": r"{\object{\*\objdata 00}}\par ",
}


def rtf(features: Features) -> bytes:
    """Return an RTF file."""
    body = "".join(text for name, text in _RTF.items() if name in features)
    return rf"{{\rtf1\ansi {PLAIN}\par {body}}}".encode()


def eml(features: Features) -> bytes:
    """Return a mail."""
    made = email.message.EmailMessage()
    made["From"], made["To"], made["Subject"], made["MIME-Version"] = (
        "a@example.org",
        "b@example.org",
        "S",
        "1.0",
    )
    made.set_content(PLAIN)
    if "alternative" in features:
        made.add_alternative("BEGIN:VEVENT\nSUMMARY:invitation words\nEND:VEVENT\n", subtype="calendar")
    if "picture" in features:
        made.add_attachment(png(), maintype="image", subtype="png", filename="photo.png")
    if "embedded" in features:
        made.add_attachment("a,b\n1,2\n", subtype="csv", filename="prices.csv")
    if "forwarded" in features:
        inner = email.message.EmailMessage()
        inner["From"], inner["Subject"] = "c@example.org", "T"
        inner.set_content("forwarded words")
        made.add_attachment(inner)
    parts = made.as_bytes()
    more = b""
    if "hidden" in features:
        more += b"Content-Type: text/html\n\n<p hidden>hidden words</p><p>page words</p>\n\0"
    if "sealed" in features:
        more += b"Content-Type: application/pkcs7-mime\n\nsealed\n\0"
    if "report" in features:
        more += b"Content-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\nStatus: 5.1.1\n\0"
    if "encoding" in features:
        more += (
            b"Content-Type: text/plain\nContent-Transfer-Encoding: 8bit\n\n"
            + JAPANESE.encode("shift_jis")
            + b"\n\0"
        )
    if not more:
        return parts
    head, _, body = parts.partition(b"\n\n")
    own = re.search(rb"(?im)^content-type:.*(?:\n[ \t].*)*", head)
    assert own is not None
    rest = head.replace(own[0] + b"\n", b"").replace(own[0], b"").rstrip(b"\n")
    rest = re.sub(rb"(?im)^content-transfer-encoding:.*\n?", b"", rest).rstrip(b"\n")
    every = [own[0] + b"\n\n" + body, *more.split(b"\0")[:-1]]
    joined = b"".join(b"--outer\n" + item + b"\n" for item in every)
    return rest + b'\nContent-Type: multipart/mixed; boundary="outer"\n\n' + joined + b"--outer--\n"


def txt(features: Features) -> bytes:
    """Return a plain text."""
    return f"{PLAIN}\n{JAPANESE}\n".encode("shift_jis") if "encoding" in features else PLAIN.encode()


def csv(features: Features) -> bytes:
    """Return a table."""
    rows = [f"head,{JAPANESE if 'encoding' in features else 'other'}", f"{PLAIN},1"]
    rows += ["lonely"] if "uneven" in features else []
    return "\n".join(rows).encode("shift_jis")


def json(features: Features) -> bytes:
    """Return an object."""
    twice = ', "key": "second words"' if "twice" in features else ""
    words = JAPANESE if "encoding" in features else "words"
    return f'{{"plain": "{PLAIN}", "key": "{words}"{twice}}}'.encode("shift_jis")


MAKERS: dict[str, Callable[[Features], bytes]] = {
    maker.__name__: maker
    for maker in (docx, xlsx, pptx, odt, ods, odp, pdf, html, epub, rtf, eml, txt, csv, json)
}
