"""Where spans are sent: the address of a receiver, checked, and the exporter that sends there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..states.base.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from .sdk_spans import Sender

PATH = "/v1/traces"
"""Where a receiver takes traces, from the specification of OTLP."""

_OWN_SESSIONS = tuple(f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{kind}CREDENTIAL_PROVIDER" for kind in ("", "TRACES_"))
"""Variables by which a host names a session of its own, which is then used as it is."""

_NEEDS = 'sending traces needs OpenTelemetry: pip install "paor[otel]"'


def sender_for(target: object = None) -> Sender:
    """
    Return what sends spans.

    Args:
        target: An exporter of the SDK's; the address of a receiver, to which ``/v1/traces`` is added if it has no path; None: what
            the environment variables OTEL_EXPORTER_OTLP_... say, else ``http://localhost:4318``.

    Raises:
        MissingExtra: The extra ``otel`` is not installed.
        UsageError: No exporter and no address of http or https, or one with a login in it.
    """
    exporter = _exporter_for(target)
    try:
        from .sdk_spans import Sender
    except ImportError:
        raise MissingExtra(_NEEDS) from None
    return Sender(exporter)


def _exporter_for(target: object) -> SpanExporter:
    if target is not None and not isinstance(target, str):
        if callable(getattr(target, "export", None)) and callable(getattr(target, "shutdown", None)):
            return target  # type: ignore[return-value]
        raise UsageError(
            "exporter: expected a SpanExporter, an address such as http://localhost:4318, or None"
        )
    endpoint = endpoint_of(target) if target is not None else None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from .bounded import bounded_session
    except ImportError:
        raise MissingExtra(_NEEDS) from None
    try:
        own = any(map(os.environ.get, _OWN_SESSIONS))
        return OTLPSpanExporter(endpoint=endpoint, session=None if own else bounded_session())
    except (ValueError, OSError) as error:
        raise UsageError(
            f"the settings OTEL_EXPORTER_OTLP_... cannot be used ({type(error).__name__})"
        ) from None


def endpoint_of(url: str) -> str:
    """
    Return the whole address of a receiver.

    Raises:
        UsageError: It is none of http or https, or has a login in it, which would be printed with it.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise UsageError("the address of a receiver must be such as http://localhost:4318")
    if parts.username is not None or parts.password is not None:
        raise UsageError("an address with a login is not used; set OTEL_EXPORTER_OTLP_HEADERS instead")
    return parts._replace(path=PATH).geturl() if parts.path in ("", "/") else url
