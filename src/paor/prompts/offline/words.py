"""
Words as the offline model compares them: function words, stems, near synonyms, and whether a text is English.

A stem is a word without its ending, cut by one rule for every language: good enough to find "invoices" by "invoicing" and
"Fristen" by "Frist", and no dictionary. What the rule misses, `corpus.Corpus.search` finds by common beginnings.
"""

import re
from functools import lru_cache
from typing import Final

_ENGLISH: Final = """a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each either few for from further had has have having he her here
    hers him his how however i if in into is it its itself just may me might more most must my neither no nor not
    now of off on once one only or other our out over own per same shall she should so some such than that the
    their theirs them then there these they this those through to too under until up upon us very was we were what
    when where whether which while who whom whose why will with within without would you your"""
STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""English words that never say what a text is about."""

_FOREIGN: Final = """aber alle aller alles auch auf aus bei bis das dass dem den der des dies diese dieser durch ein eine einem einen einer
    es für haben hat ich ihr ihre im ist jede kann kein keine mit muss müssen nach nicht noch nur oder ohne sein sich sie sind
    und uns vom von vor wann warum welche welcher welches wenn wer wird wie wo wurde zu zum zur über à au aux avec ce ces cette
    chaque combien comment dans de depuis doit doivent du elle elles en entre est et il ils la le les leur ne où ou par pas pour
    quand que quel quelle quelles quels qui sa ses son sont sur tous toute toutes tout un une al como con cuando cuándo cuál
    cuáles cuánto debe deben del desde dónde el ella este esta ha han hasta hay las lo los más para pero por qué quién se según
    si sin sobre su sus también todos todas agli ai alla alle anche che chi cosa da dal dalla degli dei della delle deve dove è
    gli hanno il nel nella non ogni per più quali quale quando quanto questo sono tra tutti ao aos com das dos em é foi na não nas
    nos os pela pelo qual quais quem são sem ser seu sua uma aan dat deze die dit door een elke er geen haar heeft het hij hoe
    kan maar met moet naar niet ook op te tot uit van veel voor waar wanneer wat welke wordt zal zich zij zijn"""
FOREIGN_WORDS: Final = frozenset(_FOREIGN.split()) - (
    STOP_WORDS | {"die", "no", "as", "me", "per", "son", "sin"}
)
"""The most frequent words of German, French, Spanish, Italian, Portuguese and Dutch."""

_SYNONYMS: Final = """terminate termination cancel cancellation notice|pay paid payable payment invoice|price pricing cost fee charge rate tariff
    |deliver delivery shipment|liability liable damages indemnity|warranty guarantee|confidential confidentiality secret secrecy
    |penalty fine|store storage warehouse|renew renewal extend extension|duration term|vacation holiday leave|cap limit limited
    maximum|salary wage|support maintenance|law jurisdiction court|discount rebate|employee staff worker|customer client buyer
    |supplier vendor seller contractor provider|install installation setup|begin start commence|owner responsible assigned"""
_WORD = re.compile(r"[^\W_]+")
_ENDINGS: Final = ("ment", "ance", "able", "ing", "ion", "ed", "en", "ly", "al", "es", "e", "y")
_STEM_CHARS_MIN: Final = 4
_SAMPLE_CHARS: Final = 20_000


def content_words(text: str) -> list[str]:
    """Return the words of *text* in lower case but for function words of any language here, and single letters."""
    words = (word for word in _WORD.findall(text.lower()) if len(word) > 1 or word.isdigit())
    return [word for word in words if not is_function_word(word)]


def is_function_word(word: str) -> bool:
    """Return whether *word* is one that never says what a text is about."""
    return word.lower() in STOP_WORDS or word.lower() in FOREIGN_WORDS


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the lower-case *word* without its plural and one further ending; numbers stay as they are."""
    if word.endswith("ies") and len(word) > _STEM_CHARS_MIN:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith("ss") and len(word) >= _STEM_CHARS_MIN:
        word = word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_CHARS_MIN:
            return word[: -len(ending)]
    return word


_GROUPS: Final = [frozenset(map(stem, group.split())) for group in _SYNONYMS.split("|")]


def synonyms_of(stemmed: str) -> frozenset[str]:
    """Return the stems of words that mean nearly the same, *stemmed* among them; none if none are known."""
    return frozenset[str]().union(*(group for group in _GROUPS if stemmed in group))


def is_english(text: str) -> bool:
    """Return whether *text* has at least as many English function words as others in its beginning."""
    words = [word for word in _WORD.findall(text[:_SAMPLE_CHARS].lower()) if len(word) > 1]
    english = sum(word in STOP_WORDS for word in words)
    foreign = sum(word in FOREIGN_WORDS for word in words)
    return english >= foreign
