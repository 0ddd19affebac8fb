"""How the offline model plays a turn with tools: it reads the documents, writes from their text, and hands over what was written."""

from typing import Any

from ..model import ModelCall, PromptMessage
from .planning import NO_DOCUMENTS, NO_TOOLS
from .sections import EXTRACT, PROCESS, Sections, criteria_of, dumps, numbered

_MARK = "\n\nDocuments: docList:"


def turn_reply(call: ModelCall, sections: Sections) -> str:
    """Call the next of extract and process that was not called yet, or answer with what the last one has come to."""
    offered = {tool.name.replace("_", "."): tool.name for tool in call.tools}
    made = [(told.name.replace("_", "."), message) for told, message in _made(call.messages)]
    given = [line for line in sections.get("Documents", "").splitlines() if line.startswith("- docList:")]
    inputs = [line.removeprefix("- ").partition(" ")[0] for line in given]
    if not inputs:
        return NO_DOCUMENTS
    if not {EXTRACT, PROCESS} & offered.keys():
        return NO_TOOLS
    last = made[-1][1].text if made else ""
    if last.startswith("Error: "):
        return f"The documents could not be read: {last.removeprefix('Error: ')}"
    text, _, label = last.partition(_MARK)
    done = {name for name, _ in made}
    tool = next((name for name in (EXTRACT, PROCESS) if name in offered and name not in done), None)
    if PROCESS in done or tool is None or not call.may_call:
        return text
    arguments: dict[str, Any] = {"documentList": [f"docList:{label.partition(',')[0]}"] if label else inputs}
    if tool == PROCESS and (wanted := numbered(criteria_of(sections))):
        arguments["customInstructions"] = wanted
    return dumps(text="", calls=[{"id": "", "name": offered[tool], "arguments": arguments}])


def _made(messages: tuple[PromptMessage, ...]) -> list[Any]:
    """Return every call of a conversation with the message that holds its result."""
    results = {message.call_id: message for message in messages if message.call_id}
    calls = (call for message in messages for call in message.calls)
    return [(call, results[call.id]) for call in calls if call.id in results]
