"""The calls that real chat templates write are read: the templates that llama.cpp is tested with, as they come in a package of PyPI."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .chat_templates import Made
from .real_servers import MISSING, template_of
from .test_unparsed import OFFERED, called

pytestmark = pytest.mark.whole

CALLS: dict[str, Made] = {
    "one": [("orders_find", {"order": "O-1"})],
    "types": [("orders_find", {"order": "5", "page": 7, "place": "York"})],
    "several": [("orders_find", {"order": "O-1"}), ("orders_ship", {"order": "O-2", "page": -1})],
}
NAMES = [
    "Apriel-1.6-15b-Thinker-fixed", "Bielik-11B-v3.0-Instruct", "ByteDance-Seed-OSS", "Cohere2MoE",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai-DeepSeek-V3.1",
    "deepseek-ai-DeepSeek-V3.2", "deepseek-ai-DeepSeek-V4", "GLM-4.6", "google-gemma-4-31B-it", "google-gemma-4-31B-it-interleaved", "GLM-4.7-Flash", "ibm-granite-granite-4.0",
    "ibm-granite-granite-4.1", "inclusionai-ling-3.0-flash", "Kimi-K2-Instruct", "Kimi-K2-Thinking", "LFM2.5-8B-A1B",
    "meetkai-functionary-medium-v3.1", "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct", "MiMo-VL", "MiniMax-M1", "MiniMax-M2", "mistralai-Ministral-3-14B-Reasoning-2512",
    "mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506", "moonshotai-Kimi-K2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "NVIDIA-Nemotron-Nano-v2", "openai-gpt-oss-120b", "poolside-Laguna-S-2.1", "poolside-Laguna-XS-2.1", "Qwen-QwQ-32B",
    "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "Qwen3.5-4B", "Reka-Edge", "Spark2.5", "StepFun3.5-Flash",
    "unsloth-Apriel-1.5", "unsloth-mistral-Devstral-Small-2507",
]  # fmt: skip
ONE_AT_A_TIME = ("meta-llama", "openai-gpt-oss")
"""Templates that write at most one call."""

_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A tag for training alone."""

_NEXT = re.compile(r"<\|START_OF_TURN_TOKEN\|>.*", re.DOTALL)
_END = re.compile(
    r"\s*(?:<\|(?:im_end|end_of_text|role_end|END_OF_TURN_TOKEN|endoftext|end|eot_id|eom_id|end_of_msg)\|>|<seed:eos>|<sep>|</s>"
    r"|<end_of_sentence>|<turn\|>|<\|tool_response>|<SPECIAL_12>|</assistant>|\[e~\[|<\uff5c(?:end\u2581of\u2581sentence|Assistant)\uff5c>)\s*\Z"
)
"""The marks that end a turn, which every server takes off."""


def written(name: str, calls: Made) -> str:
    """Return what a model with this template writes for *calls*, behind what the template has written for it."""
    text = template_of(name)
    if text is None:
        pytest.skip(f"{MISSING} templates")
    sandbox = pytest.importorskip("jinja2.sandbox")
    environment = sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    environment.globals["strftime_now"] = lambda form: "2026-07-28"
    template = environment.from_string(_GENERATION.sub("", text))
    tools = [
        {"type": "function", "function": {"name": one.name, "description": "-", "parameters": {**one.schema, "required": []}}}
        for one in OFFERED
    ]  # fmt: skip
    made = [
        {"id": f"call0000{place}", "type": "function", "function": {"name": called, "arguments": given}}
        for place, (called, given) in enumerate(calls)
    ]

    def render(*said: Any, begins: bool) -> str:
        asked = {"role": "user", "content": "Find it."}
        more = {
            "add_generation_prompt": begins,
            "enable_thinking": False,
            "bos_token": "<s>",
            "eos_token": "</s>",
        }
        return str(template.render(messages=[asked, *said], tools=tools, **more))

    before = render(begins=True)
    whole = render({"role": "assistant", "content": "", "tool_calls": made}, begins=False)
    both = zip(before, whole, strict=False)
    shared = before[: next((at for at, (one, other) in enumerate(both) if one != other), len(before))]
    if shared.rfind("<") > shared.rfind(">"):  # within a mark
        shared = shared[: shared.rfind("<")]
    text = _NEXT.sub("", whole[len(shared) :])
    while end := _END.search(text):
        text = text[: end.start()]
    return text


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_read_as_a_real_template_writes_it(name: str, calls: str) -> None:
    """Each once, with the types of its schema."""
    made = CALLS[calls]
    if len(made) > 1 and name.startswith(ONE_AT_A_TIME):
        made = made[:1]
    assert called(written(name, made), {"orders_find", "orders_ship"}) == made
