"""
The few words that the writing engine says itself, in each language: labels of sections and sentences about the findings.

Everything else in an answer is quoted. A language that is not in the table gets English.
"""

from collections.abc import Mapping
from typing import Final

from .languages import known

_LABELS: Final = "summary|obligation|deadline|date|amount|owner|action|definition|step|risk|decision|right|contact|open|compare|answer"

_LABEL_WORDS: Final[Mapping[str, str]] = {
    "en": "Summary|Obligations|Deadlines|Dates|Amounts|Responsibilities|Action items|Definitions|Steps|Risks|Decisions|Rights"
    "|Contacts|Open questions|Comparison|Answer",
    "de": "Zusammenfassung|Pflichten|Fristen|Termine|Beträge|Zuständigkeiten|Aufgaben|Begriffe|Schritte|Risiken|Beschlüsse"
    "|Rechte|Kontakte|Offene Fragen|Vergleich|Antwort",
    "fr": "Résumé|Obligations|Échéances|Dates|Montants|Responsabilités|Actions|Définitions|Étapes|Risques|Décisions|Droits"
    "|Contacts|Questions ouvertes|Comparaison|Réponse",
    "es": "Resumen|Obligaciones|Plazos|Fechas|Importes|Responsabilidades|Tareas|Definiciones|Pasos|Riesgos|Decisiones|Derechos"
    "|Contactos|Cuestiones abiertas|Comparación|Respuesta",
    "it": "Sintesi|Obblighi|Scadenze|Date|Importi|Responsabilità|Attività|Definizioni|Passaggi|Rischi|Decisioni|Diritti"
    "|Contatti|Questioni aperte|Confronto|Risposta",
    "pt": "Resumo|Obrigações|Prazos|Datas|Valores|Responsabilidades|Tarefas|Definições|Passos|Riscos|Decisões|Direitos"
    "|Contactos|Questões em aberto|Comparação|Resposta",
    "nl": "Samenvatting|Verplichtingen|Termijnen|Data|Bedragen|Verantwoordelijkheden|Acties|Definities|Stappen|Risico's"
    "|Besluiten|Rechten|Contacten|Open vragen|Vergelijking|Antwoord",
}

_PHRASES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "no_sources": "There is no document to answer from.",
        "no_text": "{names} has no readable text to answer from.",
        "none": "No passage of {names} answers this.",
        "close": "No passage of {names} answers this directly; the closest:",
        "unmentioned": "No passage of this kind mentions {terms}; all of this kind:",
        "partly": "No passage mentions {terms}.",
        "more": "Not shown: {count} more.",
        "unread": "Only the beginning of {names} was read: {count} passages.",
        "table": "{name}: a table of {count} rows with the columns {columns}.",
        "differs": "differs",
        "different": "Different",
        "only": "Only in {name}",
        "same": "The same in all",
        "alone": "There is only one document, so there is nothing to compare it with; its main points:",
        "others": "{names} and {count} more",
        "and": "{names} and {last}",
        "words": "Not enough room for an answer.",
    },
    "de": {
        "no_sources": "Es liegt kein Dokument vor, aus dem sich antworten ließe.",
        "no_text": "{names} enthält keinen lesbaren Text, aus dem sich antworten ließe.",
        "none": "Keine Stelle in {names} beantwortet das.",
        "close": "Keine Stelle in {names} beantwortet das direkt; am nächsten kommt:",
        "unmentioned": "Keine Stelle dieser Art erwähnt {terms}; alle Stellen dieser Art:",
        "partly": "Keine Stelle erwähnt {terms}.",
        "more": "Nicht gezeigt: {count} weitere.",
        "unread": "Nur der Anfang von {names} wurde gelesen: {count} Stellen.",
        "table": "{name}: eine Tabelle mit {count} Zeilen und den Spalten {columns}.",
        "differs": "abweichend",
        "different": "Unterschiedlich",
        "only": "Nur in {name}",
        "same": "In allen gleich",
        "alone": "Es gibt nur ein Dokument und damit nichts zu vergleichen; seine wichtigsten Punkte:",
        "others": "{names} und {count} weiteren",
        "and": "{names} und {last}",
        "words": "Kein Platz für eine Antwort.",
    },
    "fr": {
        "no_sources": "Il n'y a aucun document pour répondre.",
        "no_text": "{names} ne contient aucun texte lisible pour répondre.",
        "none": "Aucun passage de {names} n'y répond.",
        "close": "Aucun passage de {names} n'y répond directement ; le plus proche :",
        "unmentioned": "Aucun passage de ce type ne mentionne {terms} ; tous ceux de ce type :",
        "partly": "Aucun passage ne mentionne {terms}.",
        "more": "Non affichés : {count} de plus.",
        "unread": "Seul le début de {names} a été lu : {count} passages.",
        "table": "{name} : un tableau de {count} lignes avec les colonnes {columns}.",
        "differs": "diffère",
        "different": "Différences",
        "only": "Seulement dans {name}",
        "same": "Identique partout",
        "alone": "Il n'y a qu'un document, donc rien à comparer ; ses points principaux :",
        "others": "{names} et {count} de plus",
        "and": "{names} et {last}",
        "words": "Pas assez de place pour une réponse.",
    },
    "es": {
        "no_sources": "No hay ningún documento del que responder.",
        "no_text": "{names} no contiene texto legible del que responder.",
        "none": "Ningún pasaje de {names} responde a esto.",
        "close": "Ningún pasaje de {names} responde directamente; lo más cercano:",
        "unmentioned": "Ningún pasaje de este tipo menciona {terms}; todos los de este tipo:",
        "partly": "Ningún pasaje menciona {terms}.",
        "more": "No mostrados: {count} más.",
        "unread": "Solo se leyó el comienzo de {names}: {count} pasajes.",
        "table": "{name}: una tabla de {count} filas con las columnas {columns}.",
        "differs": "difiere",
        "different": "Diferencias",
        "only": "Solo en {name}",
        "same": "Igual en todos",
        "alone": "Solo hay un documento, así que no hay con qué compararlo; sus puntos principales:",
        "others": "{names} y {count} más",
        "and": "{names} y {last}",
        "words": "No hay espacio para una respuesta.",
    },
    "it": {
        "no_sources": "Non c'è alcun documento da cui rispondere.",
        "no_text": "{names} non contiene testo leggibile da cui rispondere.",
        "none": "Nessun passo di {names} risponde a questo.",
        "close": "Nessun passo di {names} risponde direttamente; il più vicino:",
        "unmentioned": "Nessun passo di questo tipo menziona {terms}; tutti quelli di questo tipo:",
        "partly": "Nessun passo menziona {terms}.",
        "more": "Non mostrati: altri {count}.",
        "unread": "È stato letto solo l'inizio di {names}: {count} passi.",
        "table": "{name}: una tabella di {count} righe con le colonne {columns}.",
        "differs": "diverso",
        "different": "Differenze",
        "only": "Solo in {name}",
        "same": "Uguale in tutti",
        "alone": "C'è un solo documento, quindi nulla con cui confrontarlo; i suoi punti principali:",
        "others": "{names} e altri {count}",
        "and": "{names} e {last}",
        "words": "Non c'è spazio per una risposta.",
    },
    "pt": {
        "no_sources": "Não há nenhum documento a partir do qual responder.",
        "no_text": "{names} não contém texto legível a partir do qual responder.",
        "none": "Nenhum trecho de {names} responde a isto.",
        "close": "Nenhum trecho de {names} responde diretamente; o mais próximo:",
        "unmentioned": "Nenhum trecho deste tipo menciona {terms}; todos deste tipo:",
        "partly": "Nenhum trecho menciona {terms}.",
        "more": "Não mostrados: mais {count}.",
        "unread": "Só foi lido o início de {names}: {count} trechos.",
        "table": "{name}: uma tabela de {count} linhas com as colunas {columns}.",
        "differs": "difere",
        "different": "Diferenças",
        "only": "Só em {name}",
        "same": "Igual em todos",
        "alone": "Há só um documento, portanto nada com que o comparar; os seus pontos principais:",
        "others": "{names} e mais {count}",
        "and": "{names} e {last}",
        "words": "Não há espaço para uma resposta.",
    },
    "nl": {
        "no_sources": "Er is geen document om uit te antwoorden.",
        "no_text": "{names} bevat geen leesbare tekst om uit te antwoorden.",
        "none": "Geen passage van {names} beantwoordt dit.",
        "close": "Geen passage van {names} beantwoordt dit rechtstreeks; het dichtst in de buurt:",
        "unmentioned": "Geen passage van deze soort vermeldt {terms}; alle van deze soort:",
        "partly": "Geen passage vermeldt {terms}.",
        "more": "Niet getoond: nog {count}.",
        "unread": "Alleen het begin van {names} is gelezen: {count} passages.",
        "table": "{name}: een tabel van {count} rijen met de kolommen {columns}.",
        "differs": "wijkt af",
        "different": "Verschillen",
        "only": "Alleen in {name}",
        "same": "Overal gelijk",
        "alone": "Er is maar één document, dus niets om mee te vergelijken; de hoofdpunten:",
        "others": "{names} en nog {count}",
        "and": "{names} en {last}",
        "words": "Geen ruimte voor een antwoord.",
    },
}


def labels(language: str) -> Mapping[str, str]:
    """Return what a section is called in *language*, by kind or shape."""
    return dict(zip(_LABELS.split("|"), _LABEL_WORDS[known(language)].split("|"), strict=True))


def phrases(language: str) -> Mapping[str, str]:
    """Return the sentences of *language*, to be filled with ``str.format``."""
    return _PHRASES[known(language)]


def all_phrases() -> list[str]:
    """Return the opening words of every sentence of every language, up to its first gap or full stop."""
    texts = [text for table in _PHRASES.values() for text in table.values()]
    return [
        text.split("{")[0].strip()
        for text in texts
        if text.endswith((".", ":")) and text.split("{")[0].strip()
    ]
