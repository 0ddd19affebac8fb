"""
How servers say what they do not take of a request: status, body and the interface that it was sent over, by what they mean.

The situations are those of providers' references and of reports about gateways; the words are this file's own, in the form of each server.
"""

from __future__ import annotations

from typing import Any


def openai(
    message: str, *, param: str | None = None, code: str | None = None, type: str = "invalid_request_error"
) -> Any:
    """The form of OpenAI, and of most servers that speak its interfaces."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def anthropic(message: str, type: str = "invalid_request_error") -> Any:
    """The form of Anthropic."""
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


def google(message: str, *violations: tuple[str, str]) -> Any:
    """The form of Google, in the list that its compatible endpoint puts around it."""
    error: dict[str, Any] = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    if violations:
        fields = [{"field": field, "description": told} for field, told in violations]
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields}]
    return [{"error": error}]


def fastapi(*places: tuple[list[Any], str]) -> Any:
    """The form of servers made with FastAPI, which repeat what they were sent."""
    sent = {"temperature": 0, "stream_options": {}, "response_format": {}, "messages": [{"role": "system"}]}
    return {
        "detail": [
            {"type": "extra_forbidden", "loc": loc, "msg": told, "input": sent} for loc, told in places
        ]
    }


def router(raw: str) -> Any:
    """The form of routers, which have what the server behind them said as text."""
    return {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": raw, "provider_name": "P"},
        }
    }


def object_error(message: str) -> Any:
    """The form of vLLM before it had OpenAI's."""
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


Case = tuple[str, str, int, Any]
"""What is meant, over which interface, with which status and body."""

CATALOG: dict[str, Case] = {
    # a temperature
    "OpenAI, value": ("temperature", "chat", 400, openai("Unsupported value: 'temperature' does not take 0 here. Only the default (1) does.", param="temperature", code="unsupported_value")),
    "OpenAI, parameter": ("temperature", "responses", 400, openai("Unsupported parameter: 'temperature' is not supported with this model.", param="temperature")),
    "Anthropic, deprecated": ("temperature", "messages", 400, anthropic("`temperature` is deprecated for this model.")),
    "Anthropic, thinking": ("temperature", "messages", 400, anthropic("`temperature` may only be set to 1 when thinking is enabled.")),
    "Bedrock, both": ("temperature", "messages", 400, anthropic("`temperature` and `top_p` cannot both be specified for this model.")),
    "Google, unknown name": ("temperature", "chat", 400, google("Invalid JSON payload received.", ("generation_config", 'Unknown name "temperature": Cannot find field.'))),
    "FastAPI, place": ("temperature", "chat", 422, fastapi((["body", "temperature"], "Extra inputs are not permitted"))),
    "router, raw": ("temperature", "chat", 400, router('{"error": {"message": "temperature must be left at its default"}}')),
    "LiteLLM": ("temperature", "chat", 400, openai("litellm.UnsupportedParamsError: o-series models don't take temperature=0. Set drop_params.", code="400")),
    "plain text": ("temperature", "chat", 400, "temperature: only 1 will do"),
    "validation by field": ("temperature", "chat", 422, {"errors": {"temperature": ["must be 1"]}}),
    "problem details": ("temperature", "chat", 400, {"title": "Bad Request", "detail": "temperature out of range", "instance": "/x"}),
    "in French": ("temperature", "chat", 400, {"message": "Le paramètre temperature n'est pas pris en charge."}),
    # how much it reasons
    "OpenAI, argument": ("effort", "chat", 400, openai("Unrecognized request argument supplied: reasoning_effort")),
    "OpenAI, value of effort": ("effort", "responses", 400, openai("Unsupported value: 'low' is not supported with this model.", param="reasoning.effort")),
    "OpenAI, with tools": ("effort", "chat", 400, openai("Function tools with reasoning_effort are not supported for this model here.")),
    "xAI": ("effort", "chat", 400, {"code": "invalid-argument", "error": "Argument not supported on this model: reasoningEffort"}),
    "Anthropic, effort": ("effort", "messages", 400, anthropic("This model does not support the effort parameter.")),
    "LiteLLM, budget": ("effort", "chat", 400, openai("litellm.BadRequestError: AnthropicException - `max_tokens` must be greater than `thinking.budget_tokens`.")),
    "Groq, reasoning": ("effort", "chat", 400, openai("reasoning_effort is not supported with this model")),
    "Ollama, thinking": ("effort", "chat", 400, {"error": '"m" does not support thinking'}),
    # usage in a stream
    "stream_options, field": ("stream_options", "chat", 400, openai("unknown field stream_options")),
    "stream_options, Mistral": ("stream_options", "chat", 422, fastapi((["body", "stream_options"], "Extra inputs are not permitted"))),
    "include_usage": ("stream_options", "chat", 400, {"error": "unexpected keyword include_usage"}),
    "stream_options, 501": ("stream_options", "chat", 501, openai("stream_options: not implemented")),
    # storing, thoughts that are encrypted
    "store": ("store", "responses", 400, openai("Unknown parameter: 'store'.", param="store", code="unknown_parameter")),
    "store, place": ("store", "responses", 422, fastapi((["body", "store"], "extra fields not permitted"))),
    "encrypted": ("include", "responses", 400, openai("Encrypted content is not supported with this model.", param="include")),
    "include": ("include", "responses", 400, {"detail": "include: reasoning.encrypted_content is unknown"}),
    # the system message
    "vLLM, template": ("system", "chat", 400, object_error("System role not supported")),
    "Jinja": ("system", "chat", 400, openai("Conversation roles must alternate user/assistant/user/assistant/...")),
    "SGLang": ("system", "chat", 400, object_error("Only user and assistant roles are supported!")),
    "Google, instruction": ("system", "chat", 400, google("Developer instruction is not enabled for models/m")),
    "role, place": ("system", "chat", 422, fastapi((["body", "messages", 0, "role"], "Input should be 'user' or 'assistant'"))),
    "OpenAI, role": ("system", "chat", 400, openai("Unsupported value: 'messages[0].role' does not support 'system' with this model.", param="messages[0].role")),
    "instructions": ("system", "responses", 400, openai("instructions are not supported", param="instructions")),
    "Messages, system": ("system", "messages", 400, anthropic("system: Extra inputs are not permitted")),
    # the form of a reply
    "OpenAI, response_format": ("schema", "chat", 400, openai("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", param="response_format")),
    "DeepSeek": ("schema", "chat", 400, openai("This response_format type is unavailable now")),
    "Google, with tools": ("schema", "chat", 400, google("Function calling with a response mime type: 'application/json' is unsupported")),
    "Groq, with tools": ("schema", "chat", 400, openai("json mode cannot be combined with tool calling")),
    "vLLM, guided": ("schema", "chat", 400, object_error("guided decoding is not available with this backend")),
    "llama.cpp, grammar": ("schema", "chat", 500, openai("failed to parse grammar", type="server_error")),
    "OpenAI, schema": ("schema", "chat", 400, openai("Invalid schema for response_format 'review': In context=(), 'additionalProperties' is required.", param="response_format")),
    "Responses, format": ("schema", "responses", 400, openai("Unknown parameter: 'text.format'.", param="text.format")),
    "Anthropic, format": ("schema", "messages", 400, anthropic("output_config.format: Extra inputs are not permitted")),
    "Anthropic, too complex": ("schema", "messages", 400, anthropic("output_config.format.schema: the compiled grammar is too large")),
    # a tool that has to be called
    "Anthropic, forced": ("forced", "messages", 400, anthropic("Thinking may not be enabled when tool_choice forces tool use.")),
    "Anthropic, tool_choice": ("forced", "messages", 400, anthropic('tool_choice: "tool" is not supported for this model while thinking')),
    # none that may be called
    "vLLM, none": ("tool_choice", "chat", 400, object_error("tool_choice 'none' is not supported")),
    "tool_choice, place": ("tool_choice", "responses", 422, fastapi((["body", "tool_choice"], "Input should be 'auto'"))),
    "toolConfig": ("tool_choice", "chat", 400, google("Tool config: mode NONE cannot be used")),
    # the name of the limit
    "OpenAI, newer name": ("max_tokens", "chat", 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens")),
    "Azure, newer name": ("max_tokens", "chat", 400, openai("max_tokens is not a known field", code="BadRequest")),
    # the limit itself: 4,000 is asked for
    "OpenAI, too large": ("3000", "chat", 400, openai("max_tokens is too large: 4000. This model supports at most 3000 completion tokens, whereas you provided 4000.", param="max_tokens")),
    "OpenAI, context": ("2500", "chat", 400, openai("This model's maximum context length is 8192 tokens. However, you requested 9692 tokens (5692 in the messages, 4000 in the completion).", code="context_length_exceeded")),
    "vLLM, rest": ("3096", "chat", 400, object_error("'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (4000 > 4096 - 1000).")),
    "Anthropic, most": ("2048", "messages", 400, anthropic("max_tokens: 4000 > 2048, which is the most output tokens for this model")),
    "Anthropic, context": ("1000", "messages", 400, anthropic("input length and `max_tokens` exceed context limit: 199000 + 4000 > 200000, decrease input length or `max_tokens`")),
    "Groq, at most": ("1024", "chat", 400, openai("`max_tokens` must be less than or equal to `1024`, the maximum value for `max_tokens`", param="max_tokens")),
    "DeepSeek, range": ("2048", "chat", 400, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 2048]")),
    "TGI, sum": ("1097", "chat", 422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 3000 `inputs` tokens and 4000 `max_new_tokens`", "error_type": "validation"}),
    "Responses, most": ("2,048", "responses", 400, openai("'max_output_tokens' may be 2,048 at most", param="max_output_tokens")),
    "Bedrock, most": ("2048", "messages", 400, {"message": "The maximum tokens you requested exceeds the model limit of 2048."}),
    # what the model wrote
    "Groq, call": ("again", "chat", 400, openai("Failed to call a function, see failed_generation.", code="tool_use_failed") | {}),
    "Groq, JSON": ("again", "chat", 400, {"error": {"message": "Failed to generate JSON.", "code": "json_validate_failed", "failed_generation": "{"}}),
    "Google, call": ("again", "chat", 400, {"error": {"message": "no call", "code": "MALFORMED_FUNCTION_CALL"}}),
    # the schema of a tool
    "OpenAI, function": ("plain", "chat", 400, openai("Invalid schema for function 'api_impact': schema must have type 'object' and not have 'anyOf' at the top level.", param="tools[1].function.parameters", code="invalid_function_parameters")),
    "Responses, tool": ("plain", "responses", 400, openai("Invalid schema for function 'api_impact'.", param="tools[1].parameters")),
    "Anthropic, top": ("plain", "messages", 400, anthropic("tools.1.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")),
    "Anthropic, keys": ("offer", "messages", 400, anthropic("tools.1.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'")),
    "Google, declaration": ("plain", "chat", 400, google("* GenerateContentRequest.tools[0].function_declarations[1].parameters.any_of: only allowed alone")),
    "llama.cpp, tool": ("plain", "chat", 500, openai("JSON schema conversion failed for tool api_impact", type="server_error")),
}  # fmt: skip
"""Each means what its first member says: a feature, ``forced`` a forced call, digits the limit that is left, ``plain`` and ``offer`` a tool."""
