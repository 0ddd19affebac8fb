"""Pictures that can be shown to a model: their kinds by their first bytes, and how large one may be."""

PICTURE_BYTES_MAX = 3_750_000
"""Of a picture that is shown to a model: more are over Anthropic's 5 MB once they are base64 (its reference, read 2026-11)."""

PICTURE_ROOM = 4_800
"""Bytes of a context that a picture counts as: 1,600 tokens, the most that providers count for one of usual size."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_WEBP = "image/webp"
_KINDS = frozenset((_WEBP, *(kind for _, kind in _MAGIC)))
"""Those that OpenAI and Anthropic both take (their references, read 2026-11)."""


def picture_kind(data: bytes) -> str:
    """Return the media type of a picture that can be shown to a model, by its first bytes; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _WEBP
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")


def is_picture(mime: str, size: int) -> bool:
    """Return whether a document of *size* bytes can be shown to a model as a picture: of a kind that is taken, and not too large."""
    return mime in _KINDS and size <= PICTURE_BYTES_MAX
