"""What is counted in the notes on a document: left out, flattened, or not where a reader expects it. The words are the same for every format."""

from collections.abc import Mapping

PICTURES = "pictures, which are not seen"
CHARTS = "charts, whose look is lost"
DRAWINGS = "drawings made of text (SmartArt), whose layout is lost"
FILES = "embedded files or objects, left out"
MEDIA = "sounds and films, left out"
NOISE = "parts of the page around the document (navigation, footers, buttons), left out"
FIELDS = "fields of forms, with what is filled in"
FORMULAS = "mathematical formulas, whose layout is lost"
TRACKED = "tracked changes, marked [inserted: …] and [deleted: …]"
HIDDEN = "hidden parts, marked as such"
CONCEALED = "hidden parts, left out"
MERGED = "merged cells, whose text is repeated where it is short"
MARKED = "passages that a reader has marked or struck out, not shown here"
COMMENTS = "comments"
HEADS = "page headers and footers, written once"


def counted(seen: Mapping[str, int]) -> tuple[str, ...]:
    """Return notes on what a file holds, each with how many there are."""
    return tuple(f"{what}: {count:,}" for what, count in seen.items() if count)
