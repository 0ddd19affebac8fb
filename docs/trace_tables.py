"""The parts of the page about traces: what is exported under which names, from the data file that the export reads, too."""

from __future__ import annotations

from paor.otel.span import conventions


def spans_table() -> str:
    """Return every kind of span, event and link with what it stands for."""
    data = conventions()
    lines = ["| name | what it is |", "|---|---|"]
    lines += [f"| `{span['name']}`, a span | {span['means']} |" for span in data["spans"].values()]
    lines += [f"| `{event['name']}`, an event | {event['means']} |" for event in data["events"].values()]
    lines += [f"| `{link['value']}`, a link | {link['means']} |" for link in data["links"].values()]
    return "\n".join(lines)


def attributes_table() -> str:
    """Return every attribute that is always exported."""
    return _attributes(content=False)


def contents_table() -> str:
    """Return every attribute that is exported only on request."""
    return _attributes(content=True)


def _attributes(*, content: bool) -> str:
    spans = conventions()["spans"]
    lines = ["| attribute | on | what it is |", "|---|---|---|"]
    for item in conventions()["attributes"].values():
        if item.get("content", False) is content:
            places = [f"`{spans[place]['name']}`" if place in spans else place for place in item["on"]]
            lines.append(f"| `{item['key']}` | {', '.join(places)} | {item['means']} |")
    return "\n".join(lines)
