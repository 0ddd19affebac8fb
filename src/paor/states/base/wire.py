"""
The bases of every record that crosses a wire: frozen, with the documents' field names as aliases.

`Wire` is for what a model or a person writes: pydantic says which key is wrong and how. `Stored` is for what code
writes and the journal gives back: a struct that costs a tenth of it to make and to encode.
"""

from __future__ import annotations

import json
import threading  # pure: only for the lock below
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from .sealed import sealed, unsealed

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

SEALED = AfterValidator(sealed)
"""Of a record's field: nobody can change what is in it."""

Data = Annotated[dict[str, Any], SEALED]
"""An object of JSON within a record."""

AnyData = Annotated[Any, SEALED]
"""Any JSON within a record."""


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """Return JSON data as compact text, whole numbers of any size included: a model may say any."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None).decode()
    except TypeError:  # beyond 64 bits
        return json.dumps(value, sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"))


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


class Stored(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """
    A frozen record of code's own making; the same names and the same strictness when it is read back.

    What is at its default is left out of the journal and filled in again on reading. Not checked when it is made.
    """

    def _seal(self, name: str) -> None:
        """Let nobody change the JSON data of a field; for ``__post_init__``."""
        msgspec.structs.force_setattr(self, name, sealed(getattr(self, name)))

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """
        Return the record that *text*, JSON, holds.

        Raises:
            ValueError: It is not JSON, or a field is missing or of another type.
        """
        try:
            record: Self = decoder_of(cls).decode(text)
            return record
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    @classmethod
    def of(cls, data: Any) -> Self:
        """
        Return the record that JSON-able *data* holds, or *data* itself when it is one already.

        Raises:
            ValueError: A field is missing or of another type.
        """
        try:
            decoder_of(cls)
            return data if isinstance(data, cls) else msgspec.convert(data, cls, dec_hook=_decode_embedded)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    def wire(self) -> dict[str, Any]:
        """Return the record as JSON-able data under its wire names, defaults included."""
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        values = {alias: _plain(getattr(self, name)) for name, alias in names}
        return {alias: value for alias, value in values.items() if value is not msgspec.UNSET}

    def wire_json(self) -> str:
        """Return the record as compact JSON under its wire names, without what is at its default."""
        return _ENCODER.encode(self).decode()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> Any:
        """Let a pydantic model hold the record."""
        from pydantic import PlainSerializer, PlainValidator

        return handler.generate_schema(
            Annotated[Any, PlainValidator(cls.of), PlainSerializer(lambda record: record.wire())]
        )


def _plain(value: Any) -> Any:
    """Return a field's value as JSON-able data."""
    if isinstance(value, Stored | Wire):
        return value.wire()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return unsealed(value)


def _encode_embedded(value: object) -> msgspec.Raw:
    """Return a pydantic record within a stored one as it is in the journal: what is set, under its wire names."""
    if isinstance(value, Wire):
        to_json = value.__pydantic_serializer__.to_json
        return msgspec.Raw(to_json(value, by_alias=True, exclude_unset=True))
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _decode_embedded(kind: type, value: object) -> Any:
    """Return a pydantic record that is within a stored one."""
    if issubclass(kind, Wire):
        return kind.model_validate(value)
    raise TypeError(f"a {kind.__name__} cannot be read back")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_embedded)

_DECODERS: dict[type, Any] = {}
_MAKING = threading.Lock()  # pure: what is made is the same, whoever makes it


def decoder_of(kind: type) -> Any:
    """
    Return what decodes a type from JSON; made once in a process, one at a time.

    msgspec gathers what it knows of a struct and of those within it when it is first asked to decode one. Two threads that ask at
    the same time end the process (version 0.21), so nothing is decoded or converted to a type before this was called for it.
    """
    found = _DECODERS.get(kind)
    if found is None:
        with _MAKING:
            found = _DECODERS.setdefault(kind, msgspec.json.Decoder(kind, dec_hook=_decode_embedded))
    return found
