"""How the chat templates of open model families write a tool call, as a server without their parser sends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Made = list[tuple[str, dict[str, Any]]]
"""Calls: names and arguments."""


def _json(name: str, given: dict[str, Any], key: str = "arguments") -> str:
    return json.dumps({"name": name, key: given}, ensure_ascii=False)


def _list(calls: Made, key: str = "arguments", name: str = "name") -> str:
    return json.dumps([{name: called, key: given} for called, given in calls], ensure_ascii=False)


def _raw(value: Any) -> str:
    """Write a parameter as templates of tags do: texts without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def _coder(name: str, given: dict[str, Any]) -> str:
    inner = "".join(f"<parameter={key}>\n{_raw(value)}\n</parameter>\n" for key, value in given.items())
    return f"<function={name}>\n{inner}</function>"


def _invoked(name: str, given: dict[str, Any], mark: str = "") -> str:
    inner = "".join(
        f'<{mark}parameter name="{key}">{_raw(value)}</{mark}parameter>\n' for key, value in given.items()
    )
    return f'<{mark}invoke name="{name}">\n{inner}</{mark}invoke>'


def _keyed(name: str, given: dict[str, Any]) -> str:
    inner = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_raw(value)}</arg_value>\n" for key, value in given.items()
    )
    return f"<tool_call>{name}\n{inner}</tool_call>"


def _bare(value: Any) -> str:
    """Write a value with bare keys, and with marks in place of quotation marks."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_bare(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_bare, value))}]"
    return f'<|"|>{value}<|"|>' if isinstance(value, str) else json.dumps(value)


def _python(calls: Made) -> str:
    return (
        "["
        + ", ".join(
            f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
            for name, given in calls
        )
        + "]"
    )


def _each(form: Callable[[str, dict[str, Any]], str], between: str = "\n") -> Callable[[Made], str]:
    return lambda calls: between.join(form(name, given) for name, given in calls)


DSML = "\uff5cDSML\uff5c"
DEEP = {
    name: "<\uff5ctool\u2581" + name.replace(" ", "\u2581") + "\uff5c>"
    for name in ("calls begin", "calls end", "call begin", "call end", "sep")
}


def _deepseek(call: Callable[[str, dict[str, Any]], str]) -> Callable[[Made], str]:
    return lambda calls: (
        DEEP["calls begin"]
        + "\n".join(f"{DEEP['call begin']}{call(name, given)}{DEEP['call end']}" for name, given in calls)
        + DEEP["calls end"]
    )


TEMPLATES: dict[str, Callable[[Made], str]] = {
    "Qwen 2.5, Qwen 3, Hermes": _each(lambda name, given: f"<tool_call>\n{_json(name, given)}\n</tool_call>"),
    "Qwen 3, without its end": lambda calls: "\n".join(f"<tool_call>\n{_json(*call)}" for call in calls),
    "Qwen3-Coder": _each(lambda name, given: f"<tool_call>\n{_coder(name, given)}\n</tool_call>"),
    "Qwen3-Coder, without its begin": _each(_coder),
    "Llama 3.1": lambda calls: "<|python_tag|>" + "; ".join(_json(*call, "parameters") for call in calls) + "<|eom_id|>",
    "Llama 3.1, bare": lambda calls: "; ".join(_json(*call, "parameters") for call in calls),
    "Llama 3.1, functions": _each(lambda name, given: f"<function={name}>{json.dumps(given)}</function>", ""),
    "Llama 3.2 and 4, Python": _python,
    "Mistral": lambda calls: f"[TOOL_CALLS]{_list(calls)}</s>",
    "Mistral, since Small 3.2": lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(given)}" for name, given in calls),
    "Mistral, with ids": lambda calls: "".join(f"[TOOL_CALLS]{name}[CALL_ID]a1b2c3d4e[ARGS]{json.dumps(given)}" for name, given in calls),
    "DeepSeek V3, R1": _deepseek(lambda name, given: f"function{DEEP['sep']}{name}\n```json\n{json.dumps(given)}\n```"),
    "DeepSeek V3.1": _deepseek(lambda name, given: f"{name}{DEEP['sep']}{json.dumps(given)}"),
    "DeepSeek V3.2": lambda calls: f"<{DSML}function_calls>\n" + "\n".join(_invoked(*call, DSML) for call in calls) + f"\n</{DSML}function_calls>",
    "Phi-4": lambda calls: f"<|tool_call|>{_list(calls)}<|/tool_call|>",
    "Phi-4-mini": lambda calls: f"functools{_list(calls)}",
    "Granite 3": lambda calls: f"<|tool_call|>{_list(calls)}",
    "Granite 20B": _each(lambda name, given: f"<function_call> {_json(name, given)}"),
    "Granite 4": _each(lambda name, given: f"<tool_call>\n{_json(name, given)}\n</tool_call>"),
    "Functionary 3.2": lambda calls: "\n".join(f">>>{name}\n{json.dumps(given)}" for name, given in calls),
    "Command R": lambda calls: f"Action: ```json\n{_list(calls, 'parameters', 'tool_name')}\n```",
    "Command A": lambda calls: f"<|START_ACTION|>{_list(calls, 'parameters', 'tool_name')}<|END_ACTION|>",
    "GLM-4.5": _each(_keyed),
    "Kimi K2": lambda calls: (
        "<|tool_calls_section_begin|>"
        + "".join(
            f"<|tool_call_begin|>functions.{name}:{place}<|tool_call_argument_begin|>{json.dumps(given)}<|tool_call_end|>"
            for place, (name, given) in enumerate(calls)
        )
        + "<|tool_calls_section_end|>"
    ),
    "gpt-oss": lambda calls: "".join(
        f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(given)}<|call|>"
        for name, given in calls
    ),
    "gpt-oss, its recipient first": lambda calls: "<|start|>assistant".join(
        f" to=functions.{name}<|channel|>commentary json<|message|>{json.dumps(given)}<|call|>" for name, given in calls
    ),
    "MiniMax M1": lambda calls: "<tool_calls>\n" + "\n".join(_json(*call) for call in calls) + "\n</tool_calls>",
    "MiniMax M2": lambda calls: "<minimax:tool_call>\n" + "\n".join(_invoked(*call) for call in calls) + "\n</minimax:tool_call>",
    "Gemma 3": lambda calls: f"```tool_code\n{_python(calls)}\n```",
    "Gemma 4": _each(lambda name, given: f"<|tool_call>call:{name}{_bare(given)}<tool_call|>", ""),
    "Nemotron": lambda calls: f"<TOOLCALL>{_list(calls)}</TOOLCALL>",
    "InternLM": _each(lambda name, given: f"<|action_start|><|plugin|>{_json(name, given, 'parameters')}<|action_end|>"),
    "LFM2": lambda calls: f"<|tool_call_start|>{_python(calls)}<|tool_call_end|><|im_end|>",
    "Seed-OSS": _each(lambda name, given: f"<seed:tool_call>\n{_coder(name, given)}\n</seed:tool_call>"),
    "xLAM": _list,
}  # fmt: skip
