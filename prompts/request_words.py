"""
The small words of a request in each language: verbs, question words, quantifiers, connectors. A table for ``objectives``.

All values are alternatives for a regular expression between word borders that ignores case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RequestWords:
    """
    The words of one language that shape a request and are never its topic.

    Attributes:
        verbs: What can begin a request: "list", "give me".
        questions: What can begin a question: "what", "who".
        connectors: What joins two requests: "and".
        summary: Asks for a summary.
        compare: Asks for a comparison.
        every: Asks for all there is.
        some: Asks for a selection.
        generic: Nouns that name documents or parts of an answer, not a topic.
        about: What stands between a document and a topic: "say about".
        extras: Begins what each finding should come with: "with".
        when: Asks for a time; also as the tail of another question.
        who: Asks for a person.
        much: Asks for a number.
        units: What a limit counts: "5 points".
        not_: Denies: a criterion with it cannot be shown by quoting.
        absent: Says that something was not found.
    """

    verbs: str
    questions: str
    connectors: str
    summary: str
    compare: str
    every: str
    some: str
    generic: str
    about: str
    extras: str
    when: str
    who: str
    much: str
    units: str
    not_: str
    absent: str


REQUEST_WORDS: Final[Mapping[str, RequestWords]] = {
    "en": RequestWords(
        verbs="please|list|name|enumerate|give|show|find|extract|identify|tell|collect|get|provide|write|describe|explain"
        "|outline|compare|check|state|report|create|make|produce|prepare|draft|compile|review|analy[sz]e|determine|present"
        "|highlight|answer|note|summari[sz]e|summari[sz]ing|sum up|read|look|search|define|quote|say|contain|include|cover"
        "|mention|propose|suggest|recommend|can you|could you|i want|i need|we need|point out|return|output|covers|includes|names|lists|mentions"
        "|states|contains|gives|shows|identifies|describes|explains|summari[sz]es|provides|specifies|says|listed|named"
        "|mentioned|stated|covered|included|addresses|address|specify|cite|cites",
        questions="what|which|who|whom|whose|when|where|why|how|is|are|does|do|did|can|must|should|will|has|have|was|were"
        "|by when|until when|until|by",
        connectors="and|as well as|plus|then|also|but also|&",
        summary="summar(?:y|ies|i[sz]e[ds]?|i[sz]ing)|overview|gist|key points|main points|tl;?dr|highlights|in short|essence"
        "|abstract|key takeaways|takeaways|sum up|outline|synopsis|digest|main messages?|what is .{1,40} about",
        compare="compar(?:e[ds]?|ing|ison)|differences?|differs?|versus|vs|what (?:has )?changed|changes between|deviations?",
        every="every|all|each|list|lists|complete(?:ly)?|full|entire|exhaustive(?:ly)?|any|whole",
        some="main|key|most important|important|top|major|central|essential|brief|briefly|short|shortly|quick|concise|few"
        "|biggest|critical|most relevant|best",
        generic="documents?|texts?|files?|attachments?|contents?|pages?|reports?|sections?|information|info|details?|points?"
        "|things?|items?|lists?|tables?|sources?|questions?|answers?|terms|conditions|clauses?|provisions?|statements?"
        "|passages?|parts?|contracts?|agreements?|minutes|meetings?|notes?|letters?|e-?mails?|threads?|transcripts?|conversations?|articles?|papers?|polic(?:y|ies)"
        "|offers?|quotations?|price lists?|manuals?|guides?|readme|protocols?|data|facts?|sentences?|paragraphs?|words?"
        "|bullets?|form|format|pdf|docx?|csv|html?|md|txt|xlsx?|result|results|user|reader|me|us|following|given|attached|above|below|two|both|three"
        "|new|old|say|says|said|there|need|needs|needed|happens?|happened|apply|applies|regarding|concerning|related"
        "|relevant|specific|english|markdown|versions?|correct(?:ly)?|clear(?:ly)?|accurate(?:ly)?|least|exist|exists|costs?|ask|asks|asked|know",
        about="say about|says about|state about|about|regarding|concerning|on the topic of|say on|with regard to",
        extras="with|including|together with|along with|incl",
        when="when|by when|until when|due|what date|which date|deadline|how long",
        who="who|whom|whose|which person|by whom",
        much="how much|how many|what price|what cost|what does .{1,60} cost|how expensive|how large|how big|cost of|price of",
        units="points?|bullets?|bullet points|items?|sentences?|lines?|findings|paragraphs?|passages?|deadlines?|obligations?"
        "|risks?|actions?|facts|dates?|steps?",
        not_="does not|do not|doesn't|don't|no|without|avoids?|never|nothing|free of|must not|should not|omits?",
        absent="(?:documents?|sources?|texts?|passages?|files?|contracts?|minutes|reports?|it|they) (?:do(?:es)?|did) not (?:mention|contain"
        "|state|say|specify|answer|give|list|name|define)|no (?:\\w+ ){1,5}(?:found|mentioned|stated|specified|identified|answers this)"
        "|(?:is|are|was|were) not (?:found|mentioned|stated|specified|answered|documented)|(?:cannot|could not|can['’]t) be (?:found"
        "|determined|answered|judged)|nothing (?:in|about|on)|there (?:is|are) no|no passage",
    ),
    "de": RequestWords(
        verbs="bitte|liste|listen|auflisten|nenne|nennen|zeige|zeig|gib|geben|erkläre|erklären|beschreibe|beschreiben|finde"
        "|suche|vergleiche|vergleichen|erstelle|erstellen|fasse|fass|zusammen|zusammenfassen|führe|schreibe|ermittle|extrahiere"
        "|stelle|identifiziere|auf|an|kannst du|können sie|prüfe|sage|sag|nennt|listet|enthält|zeigt|erwähnt|genannt|gibt"
        "|aufgelistet|erwähnen|enthalten|beantwortet|beantworte|zähle|beschreibt|heraus|such|lies|definiere|gehen|hervor",
        questions="was|welche[rsnm]?|wer|wem|wen|wessen|wann|wo|warum|wieso|wie|wie viel|wieviel|bis wann|ist|sind|kann|muss"
        "|darf|gibt es|hat|wofür|womit|woran|lauten|lautet|bis",
        connectors="und|sowie|sowie auch|dann|außerdem|und auch|plus|&",
        summary="zusammenfass\\w*|überblick|übersicht|kernaussagen|kernpunkte|fass(?:e|en|t)?|wesentliche[n]? punkte|hauptpunkte"
        "|kurzfassung|worum geht es|wichtigste[n]? punkte",
        compare="vergleich\\w*|unterschied\\w*|gegenüberstell\\w*|unterscheide[nt]|abweichung(?:en)?|was hat sich geändert",
        every="alle[rsnm]?|jede[rsnm]?|sämtliche\\w*|vollständig\\w*|auflisten|liste|listet|ganze[rsn]?|komplett\\w*",
        some="wichtigste[nr]?|wichtige[nr]?|kurz|kurze[nr]?|wesentliche[nr]?|zentrale[nr]?|knapp\\w*|haupt\\w*|größte[nr]?",
        generic="dokumente?n?s?|texte?s?|dateie?n?|anhang|anhänge|inhalte?|seiten?|bericht\\w*|abschnitte?|informationen|angaben"
        "|details|punkte?|dinge|liste|tabelle|quellen?|fragen?|antwort\\w*|klauseln?|bestimmung(?:en)?|regelung(?:en)?|stellen?"
        "|\\w*vertr[aä]g\\w*|\\w*vereinbarung(?:en)?|\\w*protokolle?s?|sitzung|besprechung|notizen|brief|artikel|\\w*angebote?n?s?"
        "|preisliste|handbuch|e-?mails?|\\w*richtlinien?|daten|fakten|sätze|wörter|form|ergebnis\\w*|beide[nr]?|zwei|drei|neue[rn]?|alte[rn]?|steht|stehen"
        "|sagt|geregelt|gelten|gilt|lauten|lautet|nutzer|deutsch|jeweils|mindestens|darin|passiert|geschieht|heißt|folgende[nr]?|dazu|hierzu|genau|kostet|kosten|zusammen",
        about="über|zu|zum|zur|bezüglich|hinsichtlich|betreffend",
        extras="mit|inklusive|samt|nebst|jeweils mit|einschließlich",
        when="wann|bis wann|fällig|wie lange|welches datum",
        who="wer|wem|wen|wessen|von wem",
        much="wie viele?|wieviel|was kostet|was kosten|wie teuer|wie hoch|wie groß",
        units="punkte?n?|stichpunkte?n?|sätze?n?|zeilen|einträge|fristen|pflichten|risiken|aufgaben|absätze",
        not_="nicht|keine?n?|ohne|vermeidet|niemals",
        absent="(?:enthält|enthalten|nennt|nennen|erwähnt|erwähnen|gibt|findet|finden) (?:\\w+ ){0,3}(?:keine?n?|nicht|nichts)|(?:nicht|nichts"
        "|keine?n?) (?:\\w+ ){0,4}(?:gefunden|erwähnt|genannt|beantwortet|auffindbar|ersichtlich|angegeben)|keine stelle",
    ),
    "fr": RequestWords(
        verbs="merci de|veuillez|liste[zr]?|énumère[zr]?|énumérer|donne[zr]?|montre[zr]?|trouve[zr]?|extrai[st]|extraire"
        "|indique[zr]?|cite[zr]?|compare[zr]?|décris|décrivez|décrire|explique[zr]?|résume[zr]?|rédige[zr]?|nomme[zr]?|identifie[zr]?"
        "|dis|dites|recherche[zr]?|mentionne[zr]?|contient|présente[zr]?|précise[zr]?|fais|faites|peux-tu|pouvez-vous|définis|moi",
        questions="que|quel(?:le)?s?|qui|quand|où|pourquoi|comment|combien|est-ce|qu['’]est-ce|quoi|sont|est|d['’]ici quand|y a-t-il|à qui",
        connectors="et|ainsi que|puis|et aussi|&",
        summary="résum\\w+|synthèse|aperçu|points clés|vue d['’]ensemble|grandes lignes|l['’]essentiel|synthétise[zr]?|points principaux",
        compare="compar\\w+|différences?|diffèrent?|écarts?|ce qui (?:a )?chang\\w+",
        every="tou(?:s|tes?)|tout|chaque|liste[zr]?|énumère[zr]?|énumérer|complète?|l['’]ensemble|intégralité|exhausti\\w+",
        some="principa(?:l|ux|les?)|clés?|essentiel(?:le)?s?|bref|brève(?:ment)?|court|important(?:e)?s?|majeure?s?",
        generic="documents?|textes?|fichiers?|contenu|pages?|rapports?|sections?|informations?|détails?|points?|choses?|listes?"
        "|tableaux?|sources?|questions?|réponses?|clauses?|dispositions?|passages?|contrats?|accords?|procès-verbal|réunion"
        "|notes?|lettres?|articles?|offres?|devis|conditions|modalités|prévues?|dit|disent|deux|les deux|nouveau|français|passe|arrive|manuel|coûte(?:nt)?"
        "|liste de prix|termes",
        about="au sujet d\\w+|à propos d\\w+|concernant|sur|dit (?:de|sur)|relati(?:f|ve)s? à",
        extras="avec|y compris|ainsi que leurs|assorties? de",
        when="quand|d['’]ici quand|à quelle date|jusqu['’]à quand|combien de temps",
        who="qui|à qui|par qui",
        much="combien|quel prix|quel montant|quel coût",
        units="points?|phrases?|lignes?|éléments?|échéances?|puces|risques?",
        not_="ne|pas|aucune?|sans|évite|jamais",
        absent="n(?:e |['’])(?:mentionn|contien|précis|indiqu|répond|trouv|figur)\\w* (?:pas|aucune?)|aucune? (?:\\w+ ){1,4}(?:n['’]y|ne"
        "|trouvée?s?|mentionnée?s?)|rien (?:dans|sur|n['’])|il n['’]y a (?:pas|aucune?)|aucun passage",
    ),
    "es": RequestWords(
        verbs="por favor|lista|liste|listar|enumera|enumere|enumerar|indica|indique|indicar|da|dame|dé|muestra|muestre|encuentra"
        "|busca|extrae|extraiga|compara|compare|comparar|explica|explique|describe|describa|resume|resuma|resumir|redacta|identifica"
        "|nombra|di|diga|menciona|contiene|haz|haga|puedes|define",
        questions="qué|que|cuál(?:es)?|quién(?:es)?|cuándo|dónde|por qué|cómo|cuánt[oa]s?|son|es|hay|para cuándo|hasta cuándo",
        connectors="y|e|así como|además|&",
        summary="resum\\w+|síntesis|visión general|puntos clave|sinopsis|panorama|ideas principales|puntos principales",
        compare="compar\\w+|diferencias?|difieren?|qué (?:ha )?cambi\\w+",
        every="tod[oa]s?|cada|lista|liste|listar|enumer\\w+|complet[oa]s?|enter[oa]",
        some="principal(?:es)?|clave|esencial(?:es)?|breve(?:mente)?|importantes?|cort[oa]",
        generic="documentos?|textos?|archivos?|contenidos?|páginas?|informes?|secci(?:ón|ones)|informaci(?:ón|ones)|detalles?"
        "|puntos?|cosas?|listas?|tablas?|fuentes?|preguntas?|respuestas?|cláusulas?|contratos?|acuerdos?|actas?|reuni(?:ón|ones)"
        "|notas?|cartas?|artículos?|ofertas?|condiciones|términos|dice|dicen|dos|ambas|ambos|nuev[oa]|español|pasa|ocurre|sucede|cuestan?|lista de precios",
        about="sobre|acerca de|respecto a|en cuanto a|relativ[oa]s? a",
        extras="con|incluyendo|junto con",
        when="cuándo|para cuándo|hasta cuándo|en qué fecha",
        who="quién(?:es)?|a quién",
        much="cuánt[oa]s?|qué precio|cuánto cuesta",
        units="puntos?|frases?|líneas?|elementos?|plazos?|riesgos?",
        not_="no|ningún|ninguna|sin|evita|nunca",
        absent="no (?:se )?(?:mencion|contien|indic|especific|encuentr|encontr|respond)\\w*|ning[uú]n\\w* (?:\\w+ ){1,4}(?:mencion|respond"
        "|contien|encontr)\\w*|nada (?:en|sobre)|no hay|ningún pasaje",
    ),
    "it": RequestWords(
        verbs="per favore|elenca|elencare|indica|indicare|dammi|dai|mostra|trova|estrai|confronta|confrontare|spiega|descrivi"
        "|riassumi|riassumere|scrivi|identifica|nomina|menziona|contiene|cita|fai|puoi|definisci|cerca|elenchi|fornisci",
        questions="che|cosa|che cosa|quale|quali|qual|chi|quando|dove|perché|come|quant[oaie]|sono|è|c['’]è|ci sono|entro quando",
        connectors="e|ed|nonché|inoltre|&",
        summary="riassu\\w+|sintesi|panoramica|punti chiave|punti principali|sintetizza\\w*|in breve",
        compare="confront\\w+|differenz\\w+|differiscono|cosa è cambiato|paragon\\w+",
        every="tutt[oaie]|ogni|elenc\\w+|complet[oaie]|inter[oa]",
        some="principal[ei]|chiave|essenzial[ei]|breve(?:mente)?|important[ei]|cort[oaie]",
        generic="document[oi]|test[oi]|file|contenut[oi]|pagin[ae]|rapport[oi]|sezion[ei]|informazion[ei]|dettagl[io]o?|punt[oi]"
        "|cos[ae]|list[ae]|elenco|tabell[ae]|font[ei]|domand[ae]|rispost[ae]|clausol[ae]|contratt[oi]|accord[oi]|verbal[ei]"
        "|riunion[ei]|note|letter[ae]|articol[oi]|offert[ae]|condizioni|dice|dicono|due|entramb[ie]|italiano|listino|succede|accade|costa(?:no)?",
        about="su|sul|sulla|riguardo a\\w*|circa|in merito a\\w*|relativ[oaie] a\\w*",
        extras="con|inclus[oaie]|insieme a\\w*",
        when="quando|entro quando|in che data",
        who="chi|a chi|da chi",
        much="quant[oaie]|che prezzo|quanto costa",
        units="punti|frasi|righe|elementi|scadenze|rischi",
        not_="non|nessun\\w*|senza|evita|mai",
        absent="non (?:si )?(?:menzion|contien|indic|specific|trov|rispond)\\w*|nessun\\w* (?:\\w+ ){1,4}(?:menzion|rispond|contien|trovat)\\w*"
        "|niente (?:in|su)|non (?:c['’]è|ci sono)|nessun passo",
    ),
    "pt": RequestWords(
        verbs="por favor|liste|lista|listar|enumere|enumerar|indique|indicar|dê|mostre|encontre|extraia|compare|comparar|explique"
        "|descreva|resuma|resumir|escreva|identifique|nomeie|mencione|contém|faça|pode|defina|procure|diga",
        questions="que|o que|qual|quais|quem|quando|onde|por que|porque|como|quant[oa]s?|são|é|há|até quando",
        connectors="e|bem como|assim como|além disso|&",
        summary="resum\\w+|síntese|visão geral|pontos principais|pontos-chave|sinopse",
        compare="compar\\w+|diferenças?|diferem|o que mudou",
        every="tod[oa]s?|cada|list[ae]r?|enumer\\w+|complet[oa]s?|inteir[oa]",
        some="principa(?:l|is)|chave|essencia(?:l|is)|breve(?:mente)?|importantes?|curt[oa]",
        generic="documentos?|textos?|arquivos?|ficheiros?|conteúdos?|páginas?|relatórios?|seç(?:ão|ões)|informaç(?:ão|ões)|detalhes?"
        "|pontos?|coisas?|listas?|tabelas?|fontes?|perguntas?|respostas?|cláusulas?|contratos?|acordos?|atas?|reuni(?:ão|ões)|notas?"
        "|cartas?|artigos?|ofertas?|propostas?|condições|termos|diz|dizem|dois|duas|ambos|ambas|português|acontece|custam?",
        about="sobre|acerca d\\w+|a respeito d\\w+|quanto a\\w*|relativ[oa]s? a\\w*",
        extras="com|incluindo|junto com",
        when="quando|até quando|em que data",
        who="quem|a quem",
        much="quant[oa]s?|quanto custa|que preço",
        units="pontos|frases|linhas|itens|prazos|riscos",
        not_="não|nenhum\\w*|sem|evita|nunca",
        absent="não (?:se )?(?:mencion|cont[eé]m|indic|especific|encontr|respond)\\w*|nenhum\\w* (?:\\w+ ){1,4}(?:mencion|respond|cont[eé]m"
        "|encontr)\\w*|nada (?:em|sobre)|não há|nenhum trecho",
    ),
    "nl": RequestWords(
        verbs="graag|lijst|noem|geef|toon|zoek|vind|vergelijk|vergelijken|leg uit|beschrijf|vat|samen|samenvatten|som|op|schrijf"
        "|maak|identificeer|benoem|bevat|vermeldt|vermeld|kun je|kunt u|definieer|haal|opsommen|stel|uit",
        questions="wat|welke?|wie|wanneer|waar|waarom|hoe|hoeveel|zijn|is|zijn er|tot wanneer|luiden|luidt",
        connectors="en|alsmede|evenals|ook|&",
        summary="samenvat\\w*|vat|overzicht|hoofdpunten|kernpunten|belangrijkste punten|in het kort",
        compare="vergelijk\\w*|verschil\\w*|afwijking\\w*|wat is er veranderd",
        every="alle|elke?|iedere?|lijst|opsomm\\w*|som|volledige?|complete|hele",
        some="belangrijkste|belangrijke?|kort|korte|essentiële|voornaamste|beknopt\\w*",
        generic="documente?n?|tekst(?:en)?|bestand(?:en)?|inhoud|pagina['’]?s?|rapport(?:en)?|secties?|informatie|details|punten|punt"
        "|dingen|lijst|tabel|bronn?e?n?|vra(?:ag|gen)|antwoord(?:en)?|clausules?|bepaling(?:en)?|\\w*contract(?:en)?|\\w*overeenkomst(?:en)?"
        "|notulen|vergadering|notities|brief|artikelen?|offertes?|aanbieding(?:en)?|voorwaarden|zegt|staat|twee|beide|nieuwe?"
        "|nederlands|prijslijst|gebeurt|gelden|luiden|kost(?:en)?|samen",
        about="over|omtrent|betreffende|met betrekking tot",
        extras="met|inclusief|samen met",
        when="wanneer|tot wanneer|op welke datum|hoe lang",
        who="wie|door wie|aan wie",
        much="hoeveel|wat kost|hoe duur",
        units="punten|zinnen|regels|items|termijnen|risico's",
        not_="niet|geen|zonder|vermijdt|nooit",
        absent="(?:bevat|noemt|vermeldt|vermelden|bevatten) (?:\\w+ ){0,3}(?:geen|niet|niets)|(?:niet|geen|niets) (?:\\w+ ){0,4}(?:gevonden"
        "|vermeld|genoemd|beantwoord)|er (?:is|zijn) geen|geen passage",
    ),
}

NUMBERS: Final[Mapping[str, int]] = {
    **{str(number): number for number in range(1, 51)},
    **dict(
        zip(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
            range(1, 11),
            strict=True,
        )
    ),
    **dict(
        zip(
            ["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"],
            range(1, 11),
            strict=True,
        )
    ),
    **dict(
        zip(
            ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"],
            range(1, 11),
            strict=True,
        )
    ),
    **dict(
        zip(
            ["uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"],
            range(1, 11),
            strict=True,
        )
    ),
}
"""Numbers that can limit an answer ("the five most important risks"), in digits and words."""

CRITERION_OPENINGS: Final[Mapping[str, str]] = {
    "en": "(?:the |this |an? )?(?:final )?(?:answer|summary|report|response|result|output|text|document|list|section|reply|table|it)"
    "(?: (?:should|must|shall|has to|needs to|will|is to|can|also|clearly|explicitly|correctly|fully|completely)){0,3}",
    "de": "(?:die |das |der |eine? )?(?:endgültige )?(?:antwort|zusammenfassung|bericht|ergebnis|text|dokument|liste|ausgabe|sie|es)"
    "(?: (?:muss|soll|sollte|hat|wird|auch|klar|vollständig|korrekt|ausdrücklich)){0,3}",
    "fr": "(?:la |le |l['’]|une? )?(?:réponse|résumé|rapport|résultat|texte|document|liste|elle|il)(?: (?:doit|devrait|aussi)){0,2}",
    "es": "(?:la |el |una? )?(?:respuesta|resumen|informe|resultado|texto|documento|lista)(?: (?:debe|debería|también)){0,2}",
    "it": "(?:la |il |l['’]|una? )?(?:risposta|sintesi|riassunto|rapporto|risultato|testo|documento|lista)(?: (?:deve|dovrebbe|anche)){0,2}",
    "pt": "(?:a |o |uma? )?(?:resposta|resumo|relatório|resultado|texto|documento|lista)(?: (?:deve|deveria|também)){0,2}",
    "nl": "(?:het |de |een )?(?:antwoord|samenvatting|rapport|resultaat|tekst|document|lijst)(?: (?:moet|zou|ook)){0,2}",
}
"""How a criterion begins when it speaks of the answer: "The answer must ..."."""

CRITERION_WORDS: Final[Mapping[str, str]] = {
    "en": "listed|named|mentioned|stated|covered|included|identified|given|provided|explained|described|summari[sz]ed|cited|found|shown"
    "|present|clear|clearly|correct|correctly|complete|completely|answered|addressed|specified|quoted|extracted|documented|accurate"
    "|at least one|finding|findings|explicit|explicitly|visible|available|fully|source|sources|reference|references|its|their",
    "de": "genannt|aufgelistet|aufgeführt|erwähnt|enthalten|angegeben|beschrieben|beantwortet|zusammengefasst|vorhanden|belegt|erklärt"
    "|vollständig|korrekt|richtig|klar|benannt|dargestellt|extrahiert|quellen?|quellenangaben?|mindestens ein[en]?",
    "fr": "listée?s?|nommée?s?|mentionnée?s?|indiquée?s?|couverte?s?|identifiée?s?|donnée?s?|expliquée?s?|décrite?s?|résumée?s?|citée?s?"
    "|présente?s?|claire?s?|correcte?s?|complète?s?|sources?",
    "es": "listad[oa]s?|nombrad[oa]s?|mencionad[oa]s?|indicad[oa]s?|cubiert[oa]s?|identificad[oa]s?|explicad[oa]s?|descrit[oa]s?|citad[oa]s?"
    "|presentes?|clar[oa]s?|correct[oa]s?|complet[oa]s?|fuentes?",
    "it": "elencat[oaie]|nominat[oaie]|menzionat[oaie]|indicat[oaie]|copert[oaie]|identificat[oaie]|spiegat[oaie]|descritt[oaie]|citat[oaie]"
    "|presenti?|chiar[oaie]|corrett[oaie]|complet[oaie]|font[ei]",
    "pt": "listad[oa]s?|nomead[oa]s?|mencionad[oa]s?|indicad[oa]s?|cobert[oa]s?|identificad[oa]s?|explicad[oa]s?|descrit[oa]s?|citad[oa]s?"
    "|presentes?|clar[oa]s?|corret[oa]s?|complet[oa]s?|fontes?",
    "nl": "genoemd|vermeld|opgesomd|aanwezig|beschreven|uitgelegd|samengevat|beantwoord|opgenomen|duidelijk|correct|volledig|bron|bronnen",
}
"""What a criterion says of the answer's form, which is no topic to look for."""
