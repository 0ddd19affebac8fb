"""Pictures that can be shown to a model: their kinds by their first bytes, and how large one may be."""

PICTURE_BYTES_MAX = 3_750_000
"""Of a picture that is shown to a model: more are over Anthropic's 5 MB once they are base64 (its reference, read 2026-11)."""
PICTURE_ROOM = 4_800
"""Bytes of a context that a picture counts as: 1,600 tokens, the most that providers count for one of usual size."""


_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def picture_kind(data: bytes) -> str:
    """Return the media type of a picture that can be shown to a model, by its first bytes; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES if data.startswith(magic)), "")


def is_picture(mime: str, size: int) -> bool:
    """Return whether a document can be shown to a model as a picture: one of the kinds that all providers take, and not too large."""
    return mime in ("image/png", "image/jpeg", "image/gif", "image/webp") and size <= PICTURE_BYTES_MAX
