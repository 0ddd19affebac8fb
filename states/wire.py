"""The base of every record that crosses a wire: frozen, with the documents' field names as aliases."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """
    A frozen record; ``snake_case`` in Python, the source documents' ``camelCase`` in JSON.

    Unknown keys are ignored on reading (models add them; the raw reply is in the journal all the same), types are
    strict: a number is not a string.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )

    def wire(self) -> dict[str, Any]:
        """Return the record as JSON-able data under its wire names."""
        return self.model_dump(mode="json", by_alias=True)

    def wire_json(self) -> str:
        """Return the record as compact JSON under its wire names."""
        return self.model_dump_json(by_alias=True)
