"""
Defaults that code fills, not the prompt (document 000, "Defaults (Code-Level, not Prompt)").

What an objective and its criteria imply for a search: how deep, and whether only what is new counts.

Only words are looked at, those of seven languages at once, so that the same run always gets the same values; words
that mean something else in another of these languages are left out ("hier", "actual"). A table of words cannot know
everything: where it finds nothing, nothing is implied.

Source: document 000, "Defaults (Code-Level, not Prompt)"; the values are those of the Tavily API.
"""

from __future__ import annotations

import re
from copy import deepcopy
from functools import lru_cache
from typing import Any

from ..states.records.actions import SET_BY_CODE
from ..states.run.spec import Spec, ToolSpec
from .schema.parameters import ParameterSchema

WEB = ("web.search", "web.scrape", "web.crawl")
"""Names of paor's own tools for the web; here, since their code needs packages that not everybody has."""

WINDOWS = ("day", "week", "month", "year")
"""Time windows, the narrowest first."""

_SPANS = {
    "day": r"today|tonight|yesterday|(?:last|past|previous) (?:\d\d? )?hours?|heute|heutige\w*|gestern|gestrige\w*"
    r"|aujourd['’]hui|d['’]hier|depuis hier|hoy|ayer|oggi|ieri|hoje|ontem|vandaag|gisteren",
    "week": r"(?:this|last|past|previous) week|(?:last|past|previous) (?:few |couple of |\d )?days|these days"
    r"|(?:diese[rn]?|letzte[rn]?|vergangene[rn]?) woche|(?:letzten|vergangenen) (?:\w+ )?tagen?"
    r"|cette semaine|semaine dernière|(?:derniers|\d) jours|est[ae] semana|semana pasada|últimos (?:\w+ )?d[ií]as"
    r"|questa settimana|settimana scorsa|ultimi (?:\w+ )?giorni|semana passada"
    r"|(?:deze|vorige|afgelopen) week|(?:laatste|afgelopen) (?:\w+ )?dagen",
    "month": r"(?:this|last|past|previous) month|(?:last|past|previous) (?:few |couple of |\d )?weeks|(?:last|past) [1-3]\d days"
    r"|(?:diesen|diesem|dieses|letzten|vergangenen) monats?|(?:letzten|vergangenen) (?:\w+ )?wochen"
    r"|ce mois(?:-ci)?|mois dernier|dernières semaines|este mes|mes pasado|últimas (?:\w+ )?semanas"
    r"|questo mese|mese scorso|ultime (?:\w+ )?settimane|este mês|mês passado"
    r"|(?:deze|vorige|afgelopen) maand|(?:laatste|afgelopen) (?:\w+ )?weken",
    "year": r"(?:this|last|past|previous) (?:year|quarter)|(?:last|past|previous) (?:few |couple of |\d\d? )?months|year to date"
    r"|(?:diese[ms]?|letzte[ns]?|vergangene[ns]?) (?:jahr(?:es)?|quartals?)|(?:letzten|vergangenen) (?:\w+ )?monaten?"
    r"|cette année|année dernière|derniers mois|este año|año pasado|últimos (?:\w+ )?meses"
    r"|quest['’]anno|anno scorso|ultimi (?:\w+ )?mesi|este ano|ano passado"
    r"|(?:dit|vorig|afgelopen) (?:jaar|kwartaal)|(?:laatste|afgelopen) (?:\w+ )?maanden",
}
"""Spans that a text names."""

_NEWS = (
    r"news(?! (?:agenc|anchor|stand))|headlines|current (?:events|affairs)|nachrichten|schlagzeilen|neuigkeiten"
    r"|actualités?|noticias|actualidad|notizie|attualità|notícias|atualidades?|nieuws|actualiteit(?:en)?"
)
_RECENT = (
    r"recent\w*|(?<!at the )(?<!at its )latest|newest|up[- ]to[- ]date|most current|currently|nowadays|as of now|right now"
    r"|current (?:prices?|rates?|status|situation|state|figures?|numbers?|data|version|developments?|trends?|market)"
    r"|aktuell\w*|neueste\w*|neuste\w*|kürzlich|derzeit\w*|gegenwärtig\w*|in jüngster zeit|jüngsten? (?:entwicklung|ereignis"
    r"|zahlen|berichte)\w*|(?:letzten|letzte) (?:entwicklung|meldung|zahlen)\w*"
    r"|récent\w*|récemment|actuel(?:le)?s?|actuellement|derni(?:ers?|ères?) (?:nouvelles?|développements?|chiffres|version)"
    r"|reciente\w*|actualmente|últim[oa]s? (?:novedades|avances|cifras|versión|desarrollos)"
    r"|attualmente|attual[ei]|ultim[aeio] (?:novità|sviluppi|cifre|versione|aggiornamenti)"
    r"|atualmente|atua(?:l|is)|últim[oa]s? (?:novidades|desenvolvimentos|números|versão)"
    r"|actuele?|nieuwste|momenteel|laatste (?:ontwikkeling|cijfers|stand|versie)\w*"
)
_ANALYSIS = (
    r"analy[sz]\w*|compar(?:e[ds]?|ing|isons?|ative)|evaluat\w*|assess\w*|investigat\w*|research\w*|in[- ]depth|thorough\w*"
    r"|comprehensive\w*|detailed|trade-?offs?|pros and cons|implications?|root causes?|trends?"
    r"|vergleich\w*|bewerte\w*|bewertung\w*|untersuch\w*|recherch\w*|ausführlich\w*|gründlich\w*|umfassend\w*|detailliert\w*"
    r"|comparai\w*|compare[rz]|évalu\w*|approfondi\w*|détaillé\w*"
    r"|analiz\w*|análisis|compara\w*|evalúa\w*|evalua\w*|investiga\w*|profundidad|detallad\w*|exhaustiv\w*"
    r"|analizz\w*|analisi|confront[aoi]\w*|valuta(?:re|zion[ei])|approfondi[rt]\w*|dettagliat\w*"
    r"|análises?|analis\w*|avalia\w*|aprofunda\w*|detalhad\w*"
    r"|vergelijk\w*|beoordeel\w*|beoordeling\w*|onderzoek\w*|evalueer\w*|uitgebreid\w*|grondig\w*|diepgaand\w*"
)
_LOOK_UPS = frozenset({"lookup", "look-up", "look_up", "fact", "facts"})


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE)


_SPAN_WORDS = {window: _words(pattern) for window, pattern in _SPANS.items()}
_NEWS_WORDS, _RECENT_WORDS, _ANALYSIS_WORDS = _words(_NEWS), _words(_RECENT), _words(_ANALYSIS)


@lru_cache(maxsize=256)
def time_window(objective: str, criteria: tuple[str, ...]) -> str | None:
    """
    Return the time window that a run's words imply, or None where they ask for nothing new.

    Args:
        objective: What the run is for.
        criteria: Its success criteria.

    Returns:
        The widest of `WINDOWS` that is named ("this week or this month": ``month``); without one ``week`` for news and
        ``month`` for anything recent.
    """
    text = _join(objective, criteria)
    named = [window for window in WINDOWS if _SPAN_WORDS[window].search(text)]
    if named:
        return named[-1]
    if _NEWS_WORDS.search(text):
        return "week"
    return "month" if _RECENT_WORDS.search(text) else None


@lru_cache(maxsize=256)
def depth(objective: str, criteria: tuple[str, ...], task_type: str | None = None) -> str:
    """
    Return how deep a search should go: ``advanced`` for an analysis, ``basic`` for a look-up.

    Args:
        objective: What the run is for.
        criteria: Its success criteria.
        task_type: A task type that says which of the two it is wins over the words.
    """
    if task_type is not None and task_type.casefold() in _LOOK_UPS:
        return "basic"
    text = _join(f"{task_type or ''}\n{objective}", criteria)
    return "advanced" if _ANALYSIS_WORDS.search(text) else "basic"


def _join(objective: str, criteria: tuple[str, ...]) -> str:
    """Return both as one text in single blanks, at most 20,000 characters of it."""
    return " ".join("\n".join((objective, *criteria))[:20_000].replace("_", " ").split())


LANGUAGE = "language"
FORMATS = "expectedDocumentFormats"
DEPTHS = ("searchDepth", "extractDepth")
TIME_RANGE = "timeRange"
FILLED = frozenset({LANGUAGE, FORMATS, TIME_RANGE, *DEPTHS})
"""Names of parameters that a tool can ask the run to fill."""


def fill_defaults(
    spec: Spec, tool: ToolSpec, schema: ParameterSchema, arguments: dict[str, Any]
) -> dict[str, Any]:
    """
    Return *arguments* with what the run has for the parameters that *tool* asks it for; what is set stays as it is.

    The language comes from the run (its own over the user's) if it has one, the depth is advanced for analyses and basic
    for look-ups (A034), a time window is set only where the words imply one (A035), ai.process writes Markdown unless
    other formats were asked for (A036, A076). A required parameter is never filled, nor any with a value that the tool
    would refuse. A tool's own defaults are left to its function.
    """
    asked = _asked(spec, tool, schema)
    if not asked and spec.revision > 1:
        return dict(arguments)
    values = {name: _default(name, spec, tool) for name in sorted(asked)}
    if spec.revision == 1:  # as the first journals were decided
        values = schema.defaults | {name: value for name, value in values.items() if value is not None}
    filled = dict(arguments)
    for name, value in values.items():
        if (
            name not in filled
            and value is not None
            and set(schema.check(filled | {name: value})) <= set(schema.check(filled))
        ):
            filled[name] = deepcopy(value)
    return filled


def _asked(spec: Spec, tool: ToolSpec, schema: ParameterSchema) -> frozenset[str]:
    """Return the optional parameters that the run fills: those that the tool asks for."""
    return schema.optional & (FILLED if spec.revision == 1 else frozenset(tool.filled))


def settled_by_code(spec: Spec, tool: ToolSpec, schema: ParameterSchema) -> bool:
    """Return whether no parameter of *tool* is left for a model to set: code sets all of them, or there is none."""
    left = {name for name in schema.names if name.lower() not in SET_BY_CODE}
    filled = {name for name in left & _asked(spec, tool, schema) if _default(name, spec, tool) is not None}
    return not left - filled and schema.is_whole


def _default(name: str, spec: Spec, tool: ToolSpec) -> Any:
    """Return what the run has for a parameter of this name, or None."""
    if name == LANGUAGE:
        return spec.language or None
    if name == FORMATS:
        return ["md"] if tool.name == "ai.process" else None
    if name == TIME_RANGE:
        return time_window(spec.objective, spec.success_criteria)
    return depth(spec.objective, spec.success_criteria, spec.task_type)
