"""
Rules of a policy that can never fire, found by trying every rule on every tool that is offered. Pure.

A rule that never fires is a mistake twice: what it was to forbid is allowed, and who reads the policy believes otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...states.run.spec import ToolSpec
from ...states.settings.policy import NUMBER_MAX, ApprovalRule, Condition, Policy, is_number
from ...tools.approvals import holds
from ...tools.policy import matches
from .findings import Finding


def policy_findings(policy: Policy, tools: Sequence[ToolSpec]) -> tuple[Finding, ...]:
    """
    Return every rule of *policy* that can never fire with *tools*, and every tool that no run can ever use.

    Patterns that fit no tool are not among them where `Policy.missing_ok` expects them.

    Args:
        policy: The engine's.
        tools: All that it offers.
    """
    found = _findings(policy, tools)
    return tuple(item for item in found if not (policy.missing_ok and item.code == "matches_nothing"))


def _findings(policy: Policy, tools: Sequence[ToolSpec]) -> Iterator[Finding]:
    names = [tool.name for tool in tools]
    denied = {name: "denied" for name in names if matches(name, policy.deny)}
    shut = {name: "not allowed" for name in names if policy.allow and not matches(name, policy.allow)}
    yield from _patterns("policy.deny", policy.deny, names, {})
    yield from _patterns("policy.allow", policy.allow, names, denied)
    for kind, patterns in policy.task_types.items():
        yield from _patterns(f"policy.task_types[{kind!a}]", patterns, names, shut | denied)
    yield from _approvals(policy, tools, shut | denied)
    for name in names:
        if name in denied or name in shut:
            why = "policy.deny forbids it" if name in denied else "policy.allow does not name it"
            yield Finding("never_allowed", f"tools[{name}]", f"is offered and can never be used: {why}")


def _patterns(
    place: str, patterns: Sequence[str], names: Sequence[str], closed: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield what is wrong with a list of patterns; *closed* says of a tool why it does not matter."""
    for index, pattern in enumerate(patterns):
        yield from _reach(f"{place}[{index}]", pattern, names, closed)
        wider = next((other for other in range(index) if _covers(patterns[other], pattern, names)), None)
        if wider is not None:
            yield Finding("covered", f"{place}[{index}]", f"{pattern!a} adds nothing to {place}[{wider}]")


def _reach(place: str, pattern: str, names: Sequence[str], closed: Mapping[str, str]) -> Iterator[Finding]:
    found = [name for name in names if matches(name, (pattern,))]
    if not found:
        yield Finding("matches_nothing", place, f"{pattern!a} fits no tool that is offered")
    elif all(name in closed for name in found):
        code = "always_denied" if "denied" in {closed[name] for name in found} else "not_allowed"
        yield Finding(
            code, place, f"{pattern!a} fits {_list_text(found)} only, which is {closed[found[0]]} anyway"
        )


def _covers(wider: str, pattern: str, names: Sequence[str]) -> bool:
    """Return whether *wider* fits every tool that *pattern* fits, and there is one."""
    found = [name for name in names if matches(name, (pattern,))]
    return bool(found) and all(matches(name, (wider,)) for name in found)


def _approvals(policy: Policy, tools: Sequence[ToolSpec], closed: Mapping[str, str]) -> Iterator[Finding]:
    names = [tool.name for tool in tools]
    rules = [rule if isinstance(rule, ApprovalRule) else ApprovalRule(tool=rule) for rule in policy.approvals]
    for index, rule in enumerate(rules):
        place = f"policy.approvals[{index}]"
        yield from _reach(place, rule.tool, names, closed)
        fitting = [tool for tool in tools if matches(tool.name, (rule.tool,))]
        yield from _conditions(place, rule, fitting)
        for other, wider in enumerate(rules):
            whole = not wider.arguments and other != index and (rule.arguments or other < index)
            if whole and _covers(wider.tool, rule.tool, names):
                words = f"policy.approvals[{other}] asks for all of its calls already"
                yield Finding("covered", place, words)
                break


def _conditions(place: str, rule: ApprovalRule, tools: Sequence[ToolSpec]) -> Iterator[Finding]:
    """Yield what is wrong with the conditions of a rule, for the tools that it is about."""
    for path, condition in rule.arguments.items():
        schemas = {tool.name: _at(tool.parameters, path) for tool in tools}
        if lacking := [name for name, schema in schemas.items() if schema is None]:
            words = f"there is no argument {path!a} of {_list_text(lacking)}, which counts as holding"
            yield Finding("unknown_argument", place, words)
        found: dict[str, list[str]] = {}
        for name, schema in schemas.items():
            if schema is not None:
                found.setdefault(_defect(condition, schema), []).append(name)
        usable = found.pop("", [])
        for code, names in found.items():
            if code != "never_fits" or not usable:  # of several tools one may be meant
                wanted = condition.model_dump(mode="json")
                words = f"{wanted!a} and the argument {path!a} of {_list_text(names)}: {_DEFECTS[code]}"
                yield Finding(code, place, words)


_DEFECTS = {
    "never_fits": "no value that it can have fits",
    "other_type": "no value that it can have can be compared, so every call is asked about",
    "compares_digits": "a pattern compares the digits of a number; compare it with gt, ge, lt, le or eq",
}
_NUMBERS = frozenset({"integer", "number"})


def _defect(condition: Condition, schema: Mapping[str, Any]) -> str:
    """Return why a condition can tell nothing of an argument with this JSON Schema, as a key of `_DEFECTS`; empty if it can."""
    operators, choices, types = condition.operators, _choices(schema), _types(schema)
    if choices is not None:
        found = [holds(condition, choice) for choice in choices]
        return "" if True in found else "other_type" if None in found else "never_fits"
    if types is None:
        return ""
    if not all(types & _comparable(name, wanted) for name, wanted in operators.items()):
        return "other_type"
    if not types <= _NUMBERS:
        return ""
    return (
        "compares_digits" if "pattern" in operators else "" if _overlap(operators, schema) else "never_fits"
    )


def _comparable(name: str, wanted: Any) -> frozenset[str]:
    """Return the types of JSON that an operator can compare with *wanted*."""
    if name == "pattern":
        return _TYPES
    values = wanted if name == "in" else (wanted,)
    if None in values:
        return _TYPES
    return frozenset().union(*(_NUMBERS if is_number(value) else _NAMES[type(value)] for value in values))


_NAMES: dict[type, frozenset[str]] = {str: frozenset({"string"}), bool: frozenset({"boolean"})}
_TYPES = _NUMBERS | {"string", "boolean", "null", "object", "array"}


def _types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the types of JSON that a schema allows, None where it does not tell them."""
    told = schema.get("type")
    names = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    return frozenset(names) if names and all(isinstance(name, str) for name in names) else None


def _overlap(operators: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Return whether a number between the bounds of a schema also lies between those of a condition."""

    def given(name: str, *others: str) -> list[Any]:
        return [x for x in (schema.get(name), *map(operators.get, others)) if is_number(x)]

    above, below = given("exclusiveMinimum", "gt"), given("exclusiveMaximum", "lt")
    low = max([*given("minimum", "ge", "eq"), *above], default=-NUMBER_MAX)
    high = min([*given("maximum", "le", "eq"), *below], default=NUMBER_MAX)
    return bool(low < high or (low == high and low not in above and high not in below))


def _choices(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the values that an argument can have, None where its JSON Schema does not list them."""
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    return [True, False] if schema.get("type") == "boolean" else None


_UNTOLD: Mapping[str, Any] = {}
"""The schema of what another one does not tell: anything."""


def _at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """Return the JSON Schema of what is at *path*, of a list that of its items; None where nothing can stand."""
    current: Any = schema
    for part in path.split("."):
        current = _items(current)
        if not isinstance(current, Mapping):
            return _UNTOLD
        properties = current.get("properties")
        if not isinstance(properties, Mapping) or any(
            key in current for key in ("$ref", "anyOf", "oneOf", "allOf")
        ):
            return _UNTOLD  # not told by the schema itself
        if part not in properties:
            return _UNTOLD if current.get("additionalProperties", False) else None
        current = properties[part]
    current = _items(current)
    return current if isinstance(current, Mapping) else _UNTOLD


def _items(schema: Any) -> Any:
    """Return the schema of the items of a list of lists of any depth; of anything else the schema itself."""
    while isinstance(schema, Mapping) and schema.get("type") == "array" and "items" in schema:
        schema = schema["items"]
    return schema


def _list_text(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
