"""
What a model wrote where its server has not taken it apart: thoughts and tool calls in the words of the model's chat template; pure.

A server with the right parser gives thoughts and calls apart; one without it, or with the wrong one, gives the text that the model wrote.
Every family of open models has its own marks. They share few forms: marks around JSON, a name before JSON, tags with a parameter each,
and Python's calls. So the marks are taken off, and what is between them is read in these forms.

Thoughts get the one form that all readers of replies know, `<think>...</think>`. A call is one where it is the whole reply, or what the
reply ends with, at the beginning of a line and outside of fences; only if its name is one of the offered tools, so that an answer about such marks
stays an answer. Behind words only tools that read are called: what a model quotes from a document must not act. What looks like a call
of an offered tool and cannot be read is a call with a fault, which the model is told; nothing in it is repaired.

Source: the chat templates of Qwen 2.5 and 3, Qwen3-Coder, Hermes 3, Llama 3.1 to 4, Mistral and Magistral, DeepSeek V3 to V3.2, Phi-4, Granite 3
and 4, Functionary 3, Command R and A, GLM-4.5, Kimi K2, gpt-oss, MiniMax M1 and M2, Gemma 3 and 4, Nemotron, InternLM, LFM2, Seed-OSS.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..model import OfferedTool
from .json_reading import after_thinking, decode_first, holds_any, rounded_in
from .plan_data import ARGUMENT_KEYS
from .tool_calls import ROUNDED, call_parts

Call = tuple[str, Any]
"""Name and arguments as the model wrote them."""

# -- thoughts -----------------------------------------------------------------------------------------------------------

_THOUGHT_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|channel>thought\n", "<channel|>"),
)
_ANSWER_MARKS = (
    ("<response>", "</response>"),
    ("<answer>", "</answer>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
)
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?[ ]?(?:to=(?P<early>[\w.-]+)[ ]*)?<\|channel\|>(?P<channel>\w+)(?:[ ]+to=(?P<late>[\w.-]+))?"
    r"[ ]*(?:<\|constrain\|>)?[ ]*\w*[ ]*<\|message\|>(?P<text>.*?)(?:<\|(?:end|return|call)\|>\s*|(?=<\|start\|>)|\Z)",
    re.DOTALL,
)


def with_thoughts_marked(text: str) -> str:
    """
    Return a reply with what the model thought first between `<think>` and `</think>`, as every reader of replies has it.

    Also where the beginning is missing, since the chat template has written it; a thought that never ends has no answer behind it.
    """
    body = text.lstrip()
    if _CHANNEL.match(body):
        return _of_channels(body) or text
    if body[:1] in ("{", "[") and not body.startswith("[THINK]"):
        return text  # JSON may hold any mark
    thoughts = ""
    for _ in range(8):  # some think again before they say anything
        found = next((marks for marks in _THOUGHT_MARKS if body.startswith(marks[0])), None)
        if found is None:
            break
        thought, end, rest = body[len(found[0]) :].partition(found[1])
        thoughts += thought
        body = rest.lstrip()
        if not end:
            return f"<think>{_inert(thoughts)}</think>"
    if not thoughts:
        for _, end in _THOUGHT_MARKS:
            before, mark, rest = body.partition(end)
            if mark and before[-1:] not in ("`", "'", '"') and before.count("```") % 2 == 0:
                thoughts, body = before, rest.lstrip()
                break
        else:
            return text
    for begin, end in _ANSWER_MARKS:
        if body.startswith(begin):
            body = body.removeprefix(begin).rstrip().removesuffix(end)
    return f"<think>{_inert(thoughts)}</think>{body}"


def _inert(thoughts: str) -> str:
    return thoughts.replace("</think>", "")


def _of_channels(body: str) -> str:
    """Return the messages of gpt-oss in the forms of others; empty where they are not such messages."""
    thoughts, said, end = "", "", 0
    for message in _CHANNEL.finditer(body):
        if message.start() != end:
            return ""
        end = message.end()
        to = message["early"] or message["late"]
        if to:
            given = message["text"] or "cut off"  # a call without arguments has an empty object
            said += f"\n<function={to}>{given}</function>"
        elif message["channel"] == "analysis":
            thoughts += message["text"]
        else:
            said += message["text"]
    return f"<think>{_inert(thoughts)}</think>{said}" if end == len(body) and end else ""


# -- where calls are ----------------------------------------------------------------------------------------------------

_OPENING = (
    r"<tool_calls?>|<function_?calls?>|<toolcall>|<TOOLCALL>|<\|tool_calls?\|>|\[TOOL_CALLS\]|<\|python_tag\|>|<\|START_ACTION\|>"
    r"|<\|action_start\|>(?:<\|plugin\|>)?|<\|tool_call_start\|>|<\|tool_call>|<(?:minimax|seed):tool_call>|<start_function_call>|functools(?=\[)"
    "|<\uff5ctool\u2581calls?\u2581begin\uff5c>|<\uff5cDSML\uff5c(?:function|tool)_calls>"
    r"|<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>|>>>(?=[\w.-]+\n)|Action:[ ]*(?=```json)"
)
_CLOSING = (
    r"</tool_calls?>|</function_?calls?>|</toolcall>|</TOOLCALL>|<\|/tool_calls?\|>|\[/TOOL_CALLS\]|<\|END_ACTION\|>|<\|action_end\|>"
    r"|<\|tool_call_end\|>|<tool_call\|>|</(?:minimax|seed):tool_call>|<end_function_call>"
    "|<\uff5ctool\u2581calls?\u2581end\uff5c>|</\uff5cDSML\uff5c(?:function|tool)_calls>|<\uff5cend\u2581of\u2581sentence\uff5c>"
    r"|<\|tool_calls_section_end\|>|<\|(?:im_end|eot_id|eom_id|end|call|endoftext|END_OF_TURN_TOKEN)\|>|</s>|<end_of_turn>"
)
_LINES = re.compile(
    rf"^[ \t]*+(?:(?P<mark>{_OPENING}|<function=|<(?:\uff5cDSML\uff5c)?invoke name=|```tool_(?:code|call)s?\b)|(?P<fence>```))",
    re.MULTILINE,
)
_MARKS = re.compile(rf"{_OPENING}|(?P<closing>{_CLOSING})")
_WHOLE = re.compile(r"[{\[]|```|[\w.:-]+(?:\r?\n|\()")
"""What a reply begins with that is a call without marks, if it is one."""

BEHIND_WORDS = "it stands behind words; make a call that changes something alone"
ODD = "the call cannot be read; make it as the tools are described, and nothing behind it"


def calls_in(text: str, tools: Sequence[OfferedTool], reads: Collection[str]) -> str | None:
    """
    Return a turn that calls tools in the one form of turns (`parsing.turns`), None for one that is an answer.

    Args:
        text: The reply, thoughts first.
        tools: Which were offered.
        reads: Names of those that only read.
    """
    names = {tool.name: tool for tool in tools}
    body = after_thinking(text).strip()
    place = _begin(body)
    lead, rest = body[:place].strip(), body[place:]
    if _MARKS.search(lead) if rest else not _WHOLE.match(body):
        return None  # it tells of such marks, or holds none
    found = _read(rest or body, names, marked=bool(rest))
    if found is None:
        if not any(_mentions(rest, name) for name in names):
            return None
        calls: list[dict[str, Any]] = [{"name": "", "arguments": {}, "fault": ODD}]
    else:
        calls = [{"name": name, "arguments": given} for name, given in found]
        if not all(name in reads for name, _ in found):
            rounded = rounded_in(body)
            fault = BEHIND_WORDS if rest and lead else ROUNDED if holds_any([*calls], rounded) else None
            calls = [call | {"fault": fault} for call in calls] if fault else calls
    return json.dumps({"text": lead if rest else "", "calls": calls}, ensure_ascii=False)


def _begin(body: str) -> int:
    """Return where the first mark of a call is that stands in no fence; the end of *body* without one."""
    is_fenced = False
    for line in _LINES.finditer(body):
        if not is_fenced and line["mark"]:
            return line.start()
        is_fenced ^= bool(line["fence"])
    return len(body)


def _mentions(text: str, name: str) -> bool:
    """Return whether *text* names a tool, which a model may write with the dots of its own name."""
    return re.search(rf"(?<!\w){re.escape(name).replace('_', '[_.]')}(?!\w)", text) is not None


def _read(rest: str, tools: Mapping[str, OfferedTool], *, marked: bool) -> list[Call] | None:
    """Return the calls of what is nothing but calls, None for anything else."""
    calls: list[Call] = []
    for piece, is_closed in _pieces(rest) if marked else [(rest.strip(), False)]:
        found = _piece(piece, tools, is_closed=is_closed)
        if not found:
            return None
        calls += found
    named = [(_offered(name, tools), given) for name, given in calls]
    if not named or any(name is None for name, _ in named):
        return None
    return [(str(name), given) for name, given in named]


def _pieces(rest: str) -> Iterator[tuple[str, bool]]:
    """Yield what is between marks, and whether the mark behind it is one that closes."""
    end = 0
    for mark in _MARKS.finditer(rest):
        if piece := rest[end : mark.start()].strip():
            yield piece, mark["closing"] is not None
        end = mark.end()
    if piece := rest[end:].strip():
        yield piece, False


_DECORATED = re.compile(r"\A(?:functions?|tools?|default_api)[.:]|:\d+\Z")


def _offered(name: object, tools: Iterable[str]) -> str | None:
    """Return under which name a tool is offered that a model calls so, None if it is not."""
    if not isinstance(name, str):
        return None
    plain = _DECORATED.sub("", name.strip())
    return next((one for one in (name, plain, re.sub(r"[^\w-]", "_", plain)) if one in tools), None)


# -- the forms ----------------------------------------------------------------------------------------------------------

_NAME = r"[\w.:-]{1,200}"
_FUNCTION = re.compile(rf"<function=({_NAME})>(.*?)</function>\s*", re.DOTALL)
_INVOKE = re.compile(rf'<invoke name="({_NAME})">(.*?)</invoke>\s*', re.DOTALL)
_PARAMETER = re.compile(r"<parameter(?:=|\s+name=\")([^>\"]{1,200})\"?[^>]*>(.*?)</parameter>\s*", re.DOTALL)
_KEYED = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)
_KEYED_CALL = re.compile(rf"({_NAME})\s*((?:<arg_key>.*</arg_value>)?)", re.DOTALL)
_NAMED_JSON = re.compile(
    rf"(?:function<\uff5ctool\u2581sep\uff5c>)?({_NAME})"
    "(?:\\[CALL_ID\\]\\w+|<\uff5ctool\u2581sep\uff5c>|<\\|tool_call_argument_begin\\|>|\\[ARGS\\]|```json|\\s)*+"
    r"(\{.*\})\s*+(?:```)?",
    re.DOTALL,
)
_BARE = re.compile(rf"call:({_NAME})(\{{.*\}})", re.DOTALL)
_BARE_KEY = re.compile(r"(?<=[{,])([\w.-]{1,200}):")
_FENCED = re.compile(r"```[\w-]*+[ \t]*+\r?\n(.*)```", re.DOTALL)
_GIVEN = {*ARGUMENT_KEYS, "function"}
_KEYS = {*_GIVEN, "name", "tool_name", "type", "id", "tool_call_id", "call_id"}
_LITERALS_MAX = 20_000


def _piece(piece: str, tools: Mapping[str, OfferedTool], *, is_closed: bool) -> list[Call] | None:
    """Return the calls of what is between two marks; None or none where it is no call."""
    if fenced := _FENCED.fullmatch(piece):
        piece = fenced[1].strip()
    plain = piece.replace("\uff5cDSML\uff5c", "")
    for form in (_FUNCTION, _INVOKE):
        if found := _all(form, plain):
            return [(name, _tagged(inner, tools.get(str(_offered(name, tools))))) for name, inner in found]
    keyed = _KEYED_CALL.fullmatch(piece) if is_closed else None
    if keyed and (tool := tools.get(str(_offered(keyed[1], tools)))):
        pairs = _all(_KEYED, keyed[2])
        values = _values(pairs, tool)
        return [(keyed[1], values)] if values is not None and (pairs or not keyed[2]) else None
    if bare := _BARE.fullmatch(piece):
        parts = enumerate(bare[2].split('<|"|>'))
        return [
            (
                bare[1],
                "".join(json.dumps(one) if at % 2 else _BARE_KEY.sub(r'"\1":', one) for at, one in parts),
            )
        ]
    if named := _NAMED_JSON.fullmatch(piece):
        return [(named[1], named[2])]
    if piece[:1] in ("{", "[") and (calls := _json_calls(piece)):
        return calls
    return _python_calls(piece)


def _all(form: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """Return what *form* finds if *text* is nothing but that, from its beginning on: what is hostile must not be searched again and again."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = form.match(text, at)
        if match is None:
            return []
        found.append((match[1], match[2]))
        at = match.end()
    return found


def _tagged(inner: str, tool: OfferedTool | None) -> Any:
    """Return the arguments of a call whose parameters are tags, or its JSON."""
    if inner.strip().startswith("{"):
        return inner.strip()
    found = _all(_PARAMETER, inner.strip())
    values = _values(found, tool) if found or not inner.strip() else None
    return inner if values is None else values


def _values(pairs: list[tuple[str, str]], tool: OfferedTool | None) -> dict[str, Any] | None:
    """Return parameters by their names, None where one comes twice."""
    values = {name.strip(): _typed(value, name.strip(), tool) for name, value in pairs}
    return values if len(values) == len(pairs) else None


def _typed(value: str, name: str, tool: OfferedTool | None) -> Any:
    """Return the value of a parameter that a template writes without quotes: a text where the schema takes one, else JSON."""
    text = value.removeprefix("\n").removesuffix("\n")
    properties = tool.schema.get("properties") if tool is not None else None
    schema = properties.get(name) if isinstance(properties, Mapping) else None
    if "string" in _types(schema):
        return text
    read = decode_first(text.strip())
    return text if read is None or read[1] != len(text.strip()) else read[0]


def _types(schema: object) -> set[Any]:
    """Return the types that a schema names; of the values that it lists only whether one is a text."""
    if not isinstance(schema, Mapping):
        return set()
    kinds = schema.get("type")
    found = set(kinds) if isinstance(kinds, list) else {kinds} - {None}
    for key in ("anyOf", "oneOf"):
        for way in schema.get(key) or ():
            found |= _types(way)
    values = schema.get("enum")
    return found | (
        {"string"} if isinstance(values, list) and any(isinstance(one, str) for one in values) else set()
    )


def _json_calls(text: str) -> list[Call] | None:
    """Return the calls of JSON objects behind each other, or of a list of them."""
    calls: list[Call] = []
    at = 0
    while at < len(text):
        read = decode_first(text, at)
        if read is None:
            return None
        value, at = read
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict) or not item.keys() <= _KEYS:
                return None
            _, name, given = call_parts(item | {"name": item.get("name", item.get("tool_name"))})
            given = item.get("parameters") if given is None else given
            if not isinstance(name, str) or not _GIVEN & item.keys():
                return None
            calls.append((name, {} if given is None else given))
        while at < len(text) and (text[at].isspace() or text[at] in ";,"):
            at += 1
    return calls


def _python_calls(text: str) -> list[Call] | None:
    """Return the calls of Python's form with values that are literals: ``[find(order="O-1")]``."""
    if len(text) > _LITERALS_MAX or "(" not in text:
        return None
    try:
        statements = ast.parse(text).body
        nodes = [node.value for node in statements if isinstance(node, ast.Expr)]
        if len(nodes) != len(statements):
            return None
        calls = [
            inner
            for node in nodes
            for inner in (node.elts if isinstance(node, ast.List | ast.Tuple) else [node])
        ]
        found: list[Call] = []
        for call in map(_printed, calls):
            if (
                not isinstance(call, ast.Call)
                or not isinstance(call.func, ast.Name | ast.Attribute)
                or call.args
                or any(given.arg is None for given in call.keywords)
                or any(map(_repeats, ast.walk(call)))
            ):
                return None
            values = {str(given.arg): ast.literal_eval(given.value) for given in call.keywords}
            found.append((ast.unparse(call.func), json.loads(json.dumps(values))))
        return found
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _repeats(node: ast.AST) -> bool:
    """Return whether *node* is an object that has a key twice."""
    keys = node.keys if isinstance(node, ast.Dict) else []
    return len({ast.unparse(key) for key in keys if key is not None}) < len(keys)


def _printed(node: ast.expr) -> ast.expr:
    """Return what ``print(...)`` prints, which some models write around a call."""
    is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    return node.args[0] if isinstance(node, ast.Call) and is_print and len(node.args) == 1 else node
