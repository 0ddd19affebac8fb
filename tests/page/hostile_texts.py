"""Texts that a model or a tool could return to take a page over or to look like something else, and how they must be shown."""

from __future__ import annotations

import re
import unicodedata

_ORDER = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
_WIDTHLESS = "\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u00ad\u034f\u180e\u115f\u1160\u3164\uffa0\u17b4\u17b5"
_BREAKS = "\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
_CONTROLS = "".join(map(chr, (*range(0x09), *range(0x0E, 0x1C), 0x1F, *range(0x7F, 0xA0))))
_LONE = "\ud800\udbff\udc00\udfff"
_PLANES = "\U000e0001\U000e0041\U000e007f\U000f0000\U0010fffd\ue000\uf8ff\ufff9\ufffa\ufffb\ufffe\uffff\ufdd0"

_MARKUP = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "<svg><script href=data:,window.hacked=1></svg>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<details open ontoggle=window.hacked=1>",
    "<a href=javascript:window.hacked=1>x</a>",
    "<input autofocus onfocus=window.hacked=1>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<meta http-equiv=refresh content=0;url=http://127.0.0.1:9/>",
    "<base href=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><button>go",
    "<object data=http://127.0.0.1:9/>",
    "<math><mtext><style><img src=x onerror=window.hacked=1>",
    "<noscript><p title='</noscript><img src=x onerror=window.hacked=1>'>",
    "<template><script>window.hacked=1</script></template>",
    "<!--><img src=x onerror=window.hacked=1>-->",
    "<scr<script>ipt>window.hacked=1</scr</script>ipt>",
    "<svg><animate attributeName=x onbegin=window.hacked=1></svg>",
    "<video><source onerror=window.hacked=1></video>",
    "<body onpageshow=window.hacked=1>",
    "<embed src=javascript:window.hacked=1>",
    "<plaintext>",
    "<template shadowrootmode=open><b>x</b></template>",
    "<![CDATA[<script>window.hacked=1</script>]]>",
)
_AROUND = ("{}", "'>{}", '">{}', "</textarea>{}", "</title>{}", "--!>{}", "]]>{}", "`;{}", "\\{}")
_OTHERS = (
    "javascript:window.hacked=1",
    "data:text/html,<script>window.hacked=1</script>",
    "${window.hacked=1}",
    "#{window.hacked=1} <%= window.hacked=1 %> [[window.hacked=1]]",
    "java\tscript:window.hacked=1",
    "blob:http://127.0.0.1:9/x",
    "background:url(http://127.0.0.1:9/x)",
    "'-window.hacked=1-'",
    "');window.hacked=1;//",
    "\u2028window.hacked=1",
    "{{constructor.constructor('window.hacked=1')()}}",
    "' onmouseover='window.hacked=1",
    '" style="position:fixed;inset:0',
    "&lt;script&gt; &#x3c;b&#x3e; &amp;amp; &nbsp;",
    "%3Cscript%3E %00 %0d%0a",
    "\\u003cscript\\u003e \\x3c",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    '{"__proto__":{"hacked":1}}',
    "= cmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://127.0.0.1:9\x07link\x1b]8;;\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "row 0 row 99999 row -1",
    "U+202E",
    "⟨U+202E⟩",
    "Done · every success criterion is met",
    "✓ 99 rows hold",
    "e\u0301\u0302\u0303\u0304" + "\u0330" * 40,
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 123 abc",
    "\u05e2\u05d1\u05e8\u05d9\u05ea (x) 5",
    "gnp.\u202eexe",
    "user\u2066 // admin\u2069\u2066",
    "pay\u200bpal pay\u00adpal",
)

HOSTILE = (
    *(around.format(markup) for markup in _MARKUP for around in _AROUND),
    *(f"a{sign}b" for sign in _ORDER + _WIDTHLESS + _BREAKS + _CONTROLS + _LONE + _PLANES),
    *_OTHERS,
)
"""More than three hundred."""

LONG = (
    "x" * 1_000_000,
    "long words " * 20_000,
    "<img src=x onerror=window.hacked=1>" * 2_000,
    "\u202e" * 1_500,
    "a\u0301" * 5_000,
    "line\n" * 5_000,
    "\U0001f469\u200d" * 900,
    '"' * 5_000,
)
"""Those that a page must bound."""

_EXTRA = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ue000-\uf8ff\ufdd0-\ufdef\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\U000e0000-\U0010ffff]"
)
"""What a reader would not see, or see elsewhere than it is."""


def visible(text: str) -> str:
    """Return *text* as the page shows it: a character without a shape of its own as its code."""
    return "".join(
        f"U+{ord(sign):04X}"
        if sign in _EXTRA
        or (
            sign not in "\n\t"
            and (unicodedata.category(sign)[0] == "C" or unicodedata.category(sign) in ("Zl", "Zp"))
        )
        else sign
        for sign in text
    )
