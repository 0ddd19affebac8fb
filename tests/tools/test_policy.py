"""What may run and what may reach a tool: deny wins, names have many spellings, addresses have many more."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Policy

from ..support.cases import short
from .inside import denial, folded_pattern, is_public, matches, unsafe, unsafe_address

OPEN = Policy()


def reason(value: Any, name: str = "url", policy: Policy = OPEN) -> str | None:
    """Return why *value* as the argument *name* must not reach a tool."""
    return unsafe(policy, {name: value})


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "patterns", "fits"),
    [
        ("web.fetch", ["web.fetch"], True),
        ("web.fetch", ["web_fetch"], True),
        ("web.fetch", ["web.*"], True),
        ("web.fetch", ["*.fetch"], True),
        ("web.fetch", ["w*b.f*h"], True),
        ("web.fetch", ["web.fetch2"], False),
        ("web.fetch", ["eb.fetch"], False),
        ("webx.fetch", ["web.*"], False),
        ("web.fetch", ["web.fetc?"], False),
        ("web.fetch", [""], False),
        ("crm.delete", ["web.*", "*.delete"], True),
    ],
)
def test_A166_a_pattern_fits_a_name_in_any_spelling(name: str, patterns: list[str], fits: bool) -> None:
    """Stars stand for any run of characters, nothing else is special, and the whole name has to fit."""
    assert matches(name, patterns) is fits


@given(name=st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5}){1,2}", fullmatch=True), at=st.integers(0, 20))
def test_a_name_fits_itself_and_any_part_with_a_star(name: str, at: int) -> None:
    """Whatever is cut off and replaced by a star still fits, in either spelling."""
    at %= len(name)
    for pattern in (name, name.replace(".", "_"), name.upper(), name[:at] + "*", "*" + name[at:]):
        assert matches(name, [pattern]), pattern
    assert folded_pattern(name) == name


ORDER = Policy(
    allow=("notes.*", "crm.*"),
    deny=("*.delete",),
    task_types={"lookup": ("notes.read", "notes.delete"), "empty": ()},
)


@pytest.mark.parametrize(
    ("tool", "task_type", "words"),
    [
        ("notes.read", None, None),
        ("notes.read", "lookup", None),
        ("notes.read", "anything else", "task type anything else"),
        ("notes.write", "lookup", "task type lookup"),
        ("notes.delete", "lookup", "denied by policy"),
        ("crm_delete", None, "denied by policy"),
        ("notes.read", "empty", "task type empty"),
        ("web.search", None, "not among the allowed tools"),
    ],
)
def test_A043_A044_A091_D21_deny_then_task_type_then_allow(
    tool: str, task_type: str | None, words: str | None
) -> None:
    """The first that forbids is the reason."""
    found = denial(ORDER, task_type, tool)
    assert found is None if words is None else found is not None and words in found and tool in found


# -- URLs ----------------------------------------------------------------------------------------------------------

PRIVATE = {
    "loopback": "127.0.0.1",
    "a port": "127.0.0.1:8080",
    "decimal": "2130706433",
    "hex": "0x7f000001",
    "octal": "0177.0.0.1",
    "short": "127.1",
    "zero": "0",
    "class A": "10.1.2.3",
    "class B": "172.16.0.1",
    "class C": "192.168.0.1",
    "link-local, the metadata service": "169.254.169.254",
    "carrier": "100.64.0.1",
    "multicast": "224.0.0.1",
    "documentation": "192.0.2.1",
    "IPv6 loopback": "[::1]",
    "IPv6 link-local": "[fe80::1]",
    "IPv6 unique local": "[fd00::1]",
    "IPv6 multicast": "[ff02::1]",
    "IPv4 mapped": "[::ffff:127.0.0.1]",
    "IPv4 compatible": "[::127.0.0.1]",
    "6to4": "[2002:7f00:1::]",
    "ISATAP": "[2001:db8:1::5efe:10.0.0.1]",
    "ISATAP of a public prefix": "[2a00:1450:4001:800:0:5efe:8.8.8.8]",
    "NAT64": "[64:ff9b::7f00:1]",
    "NAT64 of a network's own": "[64:ff9b:1::a00:1]",
    "IPv4 translated": "[::ffff:0:127.0.0.1]",
    "IPv6 site-local": "[fec0::1]",
    "IPv6 documentation": "[2001:db8::1]",
    "IPv6 segment routing": "[5f00::1]",
    "Teredo": "[2001:0:7f00:1::]",
    "protocol assignments": "192.0.0.9",
    "reserved": "240.0.0.1",
    "localhost": "localhost",
    "below localhost": "api.localhost",
    "multicast DNS": "printer.local",
    "a name of a local network": "nas.lan",
    "a home network": "tv.home.arpa",
    "a name of one word": "intranet",
    "a cloud's inside": "metadata.google.internal",
    "full-width digits": "１２７.0.0.1",
    "ideographic dots": "127。0。0。1",
    "circled letters": "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "a soft hyphen": "local\u00adhost",
    "percent signs": "%31%32%37.0.0.1",
}


@pytest.mark.parametrize("case", PRIVATE)
def test_A092_private_hosts_in_any_spelling_are_refused(case: str) -> None:
    """In arguments of any name, as long as the text is a URL; with a reason that names no more than the kind."""
    for scheme in ("http", "https", "HTTP"):
        url = f"{scheme}://{PRIVATE[case]}/path?query=http://example.org"
        for name in ("url", "text"):
            found = reason(url, name)
            assert found is not None and found.startswith(f"argument {name}: "), url
            assert "private" in found
    open_ = reason(f"http://{PRIVATE[case]}/", policy=Policy(private_hosts=True))
    assert (open_ is None) is (case not in ("link-local, the metadata service", "a cloud's inside"))


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
        *(
            "169.254.170.2",
            "192.0.0.192",
            "[fd00:ec2::23]",
            "instance-data",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "[fd00:ec2::254]",
            "[fd20:ce::254]",
        ),
        *("metadata.google.internal", "Metadata.Google.Internal.", "metadata.goog", "169。254。169。254"),
    ],
)
@pytest.mark.parametrize("policy", [Policy(), Policy(private_hosts=True)], ids=["usual", "private hosts"])
def test_what_gives_credentials_is_never_asked(host: str, policy: Policy) -> None:
    """Whatever a policy allows: with a scheme or without one, under any name of the argument where a URL is meant."""
    assert "private" in str(reason(f"http://{host}/latest/meta-data/", policy=policy))
    assert reason(f"https://{host}:8080/", "text", policy=policy) is not None
    assert reason(f"//{host}/", policy=policy) is not None
    assert reason(host, policy=policy) is not None
    if host[0] in "1[" and "。" not in host:
        assert unsafe_address(policy, host.strip("[]"))
    assert reason("http://169.254.1.1/", policy=Policy(private_hosts=True)) is None
    assert not unsafe_address(Policy(private_hosts=True), "169.254.1.1")


@pytest.mark.parametrize("case", PRIVATE)
def test_A092_private_hosts_without_a_scheme_are_refused_where_a_url_is_meant(case: str) -> None:
    """A tool may put ``http://`` in front."""
    for url in (PRIVATE[case], f"//{PRIVATE[case]}/path"):
        assert reason(url) is not None


@given(number=st.integers(0, 2**32 - 1), form=st.integers(0, 5))
def test_every_spelling_of_an_ipv4_address_is_judged_like_the_address(number: int, form: int) -> None:
    """Decimal, hex, octal, dotted, mapped: what a resolver takes for the same address is the same here."""
    address = ipaddress.IPv4Address(number)
    octets = list(address.packed)
    spelling = [
        str(address),
        str(number),
        hex(number),
        ".".join(f"0{octet:o}" for octet in octets),
        f"[::ffff:{address}]",
        f"{octets[0]}.{number & 0xFFFFFF}",
    ][form]
    assert (reason(f"http://{spelling}/") is None) is is_public(address)


@given(
    number=st.integers(0, 2**128 - 1), prefix=st.sampled_from([0, 3, 7, 10, 16, 32, 96]), four=st.booleans()
)
def test_what_is_public_here_is_public_in_the_standard_library(number: int, prefix: int, four: bool) -> None:
    """The ranges stand here so that no version of Python moves them; none of them may be forgotten."""
    address = (
        ipaddress.IPv4Address(number >> 96)
        if four
        else ipaddress.IPv6Address(number >> prefix | (1 << 125 if prefix == 3 else 0))
    )
    inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    stands_for = not four and int(address) >> 32 in (0, 0xFFFF, 0xFFFF0000, 0x64FF9B << 64)
    if is_public(address) and not stands_for:
        assert address.is_global and not address.is_multicast and not address.is_reserved
    if stands_for:
        assert is_public(address) is is_public(inner)


@pytest.mark.parametrize(
    "network",
    [
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/3"),
    ],
)
def test_a_private_range_ends_where_it_ends(network: str) -> None:
    """Its first and last address are private, those around it are not, where no other range begins."""
    found = ipaddress.IPv4Network(network)
    assert not is_public(found[0]) and not is_public(found[-1])
    for number in (int(found[0]) - 1, int(found[-1]) + 1):
        if 0 <= number < 2**32 and network not in ("203.0.113.0/24",):
            around = ipaddress.IPv4Address(number)
            assert is_public(around) is (around.is_global and not around.is_multicast)


@pytest.mark.parametrize("name", ["page", "readme.md", "docs/index", "#top", "?page=2", "/x"])
def test_a_word_where_a_link_is_meant_is_no_private_host(name: str) -> None:
    """Only what is written as a URL is held to be a name of the local network."""
    assert reason(name, "link") is None


BAD_URLS = {
    "a file": "file:///etc/passwd",
    "a script": "javascript:alert(1)",
    "a script behind a control character": "\x01javascript:alert(1)",
    "a script with a line break in it": "java\nscript:alert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "vbscript": "vbscript:msgbox(1)",
    "ftp": "ftp://example.org/a",
    "gopher": "gopher://127.0.0.1:25/",
    "user info": "https://user:secret@example.org/",
    "a host behind a user": "https://example.org@127.0.0.1/",
    "a backslash": "https://example.org\\@127.0.0.1/",
    "no host": "https:///path",
    "no slashes": "https:example.org",
    "a broken address": "http://[::1",
    "a port that is none": "http://example.org:99999/",
    "an octal number that is none": "https://1.2.3.09/",
    "a hex number at the end": "https://example.0x1/",
    "a dot in front": "https://.example.org/",
    "a header behind it": "https://example.org/\r\nX-Evil: yes",
    "a private one behind a comma": "https://example.org/,http://127.0.0.1/",
    "a host that is a slash in disguise": "http://example.org\u2100.example.net/",
}


@pytest.mark.parametrize("case", BAD_URLS)
def test_A092_urls_of_other_kinds_are_refused(case: str) -> None:
    """Schemes, user info, and whatever two parsers would read differently."""
    assert reason(BAD_URLS[case]) is not None


@pytest.mark.parametrize(
    "name",
    [
        "url",
        "urls",
        "URL",
        "pageUrl",
        "page_url",
        "targetURL",
        "base-uri",
        "uri",
        "href",
        "link",
        "links",
        "endpoint",
    ],
)
def test_A092_arguments_named_like_a_url_are_urls(name: str) -> None:
    """In the spellings that tools use."""
    assert reason("ftp://example.org/a", name) is not None
    assert reason("192.168.0.1/admin", name) is not None
    assert reason("https://example.org/a", name) is None


@pytest.mark.parametrize("name", ["url", "text", "anything"])
@pytest.mark.parametrize(
    "case", ["a file", "a script", "data", "vbscript", "a script with a line break in it"]
)
def test_A092_dangerous_schemes_are_refused_under_any_name(case: str, name: str) -> None:
    """They mean a URL wherever they stand."""
    assert reason(BAD_URLS[case], name) is not None


GOOD_URLS = [
    "https://example.org/a?b=c#d",
    "http://example.org:8080/",
    "https://münchen.example/straße",
    "https://xn--mnchen-3ya.example/",
    "http://8.8.8.8/",
    "http://134744072/",
    "https://[2606:4700:4700::1111]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[64:ff9b::808:808]/",
    "https://[2002:808:808::]/",
    "https://localhost.example.org/",
    "https://example.org/..%2f/http://127.0.0.1",
    "https://example.org/?next=http://localhost/",
    "https://10.example.org/",
    "  https://example.org/  ",
    "example.org/a",
    "/docs/page",
    "",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_public_urls_are_let_through(url: str) -> None:
    """Also those that look a little like private ones."""
    assert reason(url) is None


def test_A092_schemes_are_the_policys() -> None:
    """What a host allows is allowed, dangerous ones included; what it does not list is not."""
    assert reason("ftp://example.org/a", policy=Policy(url_schemes=("ftp",))) is None
    assert reason("https://example.org/a", policy=Policy(url_schemes=("ftp",))) is not None
    assert reason("file:///srv/a", policy=Policy(url_schemes=("file",))) is None


# -- paths and texts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../a",
        "..",
        "a/../../b",
        "..\\a",
        "a\\..\\b",
        "./../a",
        "C:\\..\\a",
        "x:../a",
        "a/..",
        "%2e%2e/a",
        "a/%2E./b",
    ],
)
@pytest.mark.parametrize(
    "name", ["path", "file", "fileName", "file_path", "outputPath", "directory", "folders", "dir"]
)
def test_A092_paths_that_climb_are_refused(path: str, name: str) -> None:
    """With either slash, anywhere in the path, behind a drive as well."""
    found = reason(path, name)
    assert found is not None and ".." in found


@pytest.mark.parametrize(
    "path",
    [
        "a/b.txt",
        "a..b",
        "C:\\Users\\a.txt",
        "a/.b/c",
        "",
    ],
)
def test_other_paths_are_let_through(path: str) -> None:
    """Dots alone do not climb."""
    assert reason(path, "path") is None


PROSE = [
    "Data: list every date",
    "data:\n- one\n- two",
    "File: see page 3",
    "JavaScript: The Good Parts",
    "note: this",
    "Compare a/../b with c",
    "see http://127.0.0.1/ in the log",
    "docList:round1_task1_action1_page",
    "12:30",
    ": nothing",
    "",
]


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_let_through(text: str) -> None:
    """A word with a colon is not a scheme, and a text may speak of hosts and paths."""
    assert reason(text, "query") is None


@pytest.mark.parametrize("name", ["query", "url", "path"])
def test_A092_nul_is_refused_everywhere(name: str) -> None:
    """No text needs it, and it ends strings in other languages."""
    found = reason("a\0b", name)
    assert found is not None and "NUL" in found


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"a": 1, "b": [None, {"url": "file:///x"}]}, "b.url"),
        ({"urls": ["https://example.org", "http://10.0.0.1/"]}, "urls"),
        ({"options": {"target": {"path": "../x"}}}, "options.target.path"),
        ({"pair": ("ok", "javascript:1")}, "pair"),
    ],
    ids=short,
)
def test_A092_values_are_found_at_any_depth(arguments: dict[str, Any], place: str) -> None:
    """The reason names the argument that it is about."""
    found = unsafe(OPEN, arguments)
    assert found is not None and found.startswith(f"argument {place}: ")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_every_json_value_is_judged_without_an_exception(value: Any) -> None:
    """A reason or none, on one line, for whatever a model sends."""
    for name in ("url", "path", "text"):
        found = reason(value, name)
        assert found is None or (isinstance(found, str) and found.startswith("argument "))


@given(st.text(alphabet="htp:/.@[]%\\0x7f12:\t\n \u3002\uff10localhost-", max_size=30))
def test_no_text_breaks_the_url_check(text: str) -> None:
    """Not even almost-URLs."""
    for prefix in ("", "http://", "http:"):
        reason(prefix + text)
