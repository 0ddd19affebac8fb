"""
Which hosts and addresses are public. Pure, and the same on every version of Python: a run that is replayed elsewhere
decides as it did, so the ranges stand here and not in a standard library that moves them.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from urllib.parse import unquote, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
    )
)
"""
This network, private, shared (CGNAT), loopback, link-local, protocol assignments, documentation, AS112 and AMT, the old
6to4 relays, benchmarks, multicast, reserved. Source: IANA IPv4 Special-Purpose Address Registry; multicast RFC 5771.
"""

_PUBLIC = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is given out to the internet; the rest is not public, whatever it is. Source: RFC 4291, IANA."""

_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "3ffe::/16")
)
"""Teredo and other protocols, documentation, AS112, the closed 6bone. Source: IANA IPv6 Special-Purpose Address Registry."""

_WITH_IPV4 = tuple(
    ipaddress.IPv6Network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
"""Whose last 32 bits are an IPv4 address: compatible, mapped, translated (SIIT), NAT64."""

_6TO4 = ipaddress.IPv6Network("2002::/16")

_PRIVATE_NAMES = (
    *("localhost", "local", "internal", "localdomain", "intranet", "lan", "home", "corp", "private"),
    *("home.arpa", "ip6-localhost", "ip6-loopback"),
)
"""
Names, and what is below them, that no public name server knows. Source: RFC 6761, 6762, 8375; ICANN's .internal; names that
ICANN does not give out, since networks use them; Debian's /etc/hosts.
"""


_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        *(
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
        ),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
"""
Where clouds give a machine its credentials: the metadata services of AWS, Azure, Google and most others, of containers at
AWS, of Azure's fabric, Alibaba and Oracle; IPv6 of AWS and Google. Source: their documentations of the metadata service.
"""

CREDENTIALS = "names a private service that gives credentials"

_METADATA_NAMES = ("metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal")


def gives_credentials(url: str) -> bool:
    """Return whether a URL names a cloud's metadata service, which no policy allows: it gives credentials to whoever asks."""
    try:
        host = _plain_host(urlsplit(url).hostname)
    except ValueError:
        return False
    address = address_of(host)
    return host in _METADATA_NAMES if address is None else is_metadata(address)


def is_metadata(address: Address) -> bool:
    """Return whether *address* is that of a cloud's metadata service, also as an IPv4 address within IPv6."""
    inner = _inner(address) if isinstance(address, ipaddress.IPv6Address) else None
    return address in _METADATA or inner in _METADATA


def _plain_host(host: str | None) -> str:
    """Return a host as a resolver would look for it: in its plain letters, lower case, without what is invisible."""
    host = unicodedata.normalize("NFKC", unquote(host or "")).replace("\u3002", ".")
    return "".join(letter for letter in host if unicodedata.category(letter) != "Cf").rstrip(".").lower()


def unsafe_host(url: str, *, private_hosts: bool = False, bare: bool = False) -> str | None:
    """
    Return why the host of *url* is none to ask, or None, as far as its text tells.

    Args:
        url: With a scheme and two slashes.
        private_hosts: Whether private ones are allowed; users, hosts that parsers read differently, and what gives
            credentials never are.
        bare: The text was no URL before ``http://`` was put in front of it, so that one word may be a word.
    """
    try:
        parts = urlsplit(url)
        host, _ = _plain_host(parts.hostname), parts.port
    except ValueError:
        return "is not a valid URL"
    if not host:
        return "has no host"
    if parts.username is not None or parts.password is not None:
        return "must not carry user info"
    odd = re.search(r"[/?#@\s\x00-\x1f\x7f]|\A\.|\.\.", host) or ("[" in parts.netloc and ":" not in host)
    if "\\" in parts.netloc or odd:
        return "has a host that parsers would read differently"
    if gives_credentials(url):
        return CREDENTIALS
    if private_hosts:
        return None
    if any(host == name or host.endswith(f".{name}") for name in _PRIVATE_NAMES):
        return "names a private host"
    address = address_of(host)
    if address is not None:
        return None if is_public(address) else "names a private address"
    last = host.rpartition(".")[2]
    if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last) or ":" in host:
        return "has a number for a host that is no address"
    return None if bare or "." in host else "names a private host"


def is_public(address: Address) -> bool:
    """Return whether *address* is one of the public internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC)
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    if (
        int(address) >> 32 & 0xFDFFFFFF == 0x5EFE
    ):  # ISATAP (RFC 5214): a tunnel to an IPv4 address of a private site
        return False
    return address in _PUBLIC and not any(address in network for network in _NOT_PUBLIC_6)


def address_of(host: str) -> Address | None:
    """Return the address that *host* spells, also in the decimal, octal, hex and short forms that resolvers take."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return _legacy_address(host)


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 one stands for."""
    if address in _6TO4:
        return ipaddress.IPv4Address(int(address) >> 80 & 0xFFFFFFFF)
    if any(address in network for network in _WITH_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _legacy_address(host: str) -> ipaddress.IPv4Address | None:
    parts = host.split(".")
    if len(parts) > 4 or not all(re.fullmatch(r"0x[0-9a-f]+|[0-9]+", part) for part in parts):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    value = numbers[-1]
    for index, number in enumerate(numbers[:-1]):
        value += number << (8 * (3 - index))
    return ipaddress.IPv4Address(value) if 0 <= value < 2**32 else None


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part, 16)
    return int(part, 8) if part.startswith("0") and part != "0" else int(part)
