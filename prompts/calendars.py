"""
How each language writes dates, periods and the words that turn them into a deadline: a table, read by ``dates``.

Every value is a list of alternatives for a regular expression, in lower case and without groups of its own. A date or a
period alone is no deadline ("The Agreement of 3 March", "for five years"); the words here that stand right before or
right after one make it so. All of them are matched in a window of some 50 characters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Calendar:
    """
    The words of one language around dates and periods.

    Attributes:
        months: Month names and their short forms.
        weekdays: Days of the week, and "tomorrow".
        ends: What names a point in time without a day: "the end of the month".
        joins: Small words inside a date: "of" in "3 of May".
        numbers: Numbers in words, as periods use them.
        periods: Units of a period.
        adjectives: What may stand between number and unit: "working".
        fillers: What may stand between a trigger and the date: "the end of".
        until: Triggers before a date.
        overdue: Triggers after a date.
        within: Triggers before a period.
        notice: Triggers after a period.
        lasting: Words before a date or period that make it no deadline: "for", "dated".
        nouns: Words that make any period or date in their sentence a deadline: "notice period", "postponed to".
        strong: Phrases that are a deadline without date or period: "no later than".
        prompt: Phrases that are a deadline only where somebody is obliged: "immediately".
    """

    months: str
    weekdays: str
    ends: str
    joins: str
    numbers: str
    periods: str
    adjectives: str
    fillers: str
    until: str
    overdue: str
    within: str
    notice: str
    lasting: str
    nouns: str
    strong: str
    prompt: str


CALENDARS: Final[Mapping[str, Calendar]] = {
    "en": Calendar(
        months="january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr"
        "|jun|jul|aug|sept|sep|oct|nov|dec",
        weekdays="mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|tomorrow|tonight|today",
        ends="(?:the )?(?:end|beginning|middle|start) of (?:the |this |next )?(?:day|week|month|quarter|year|term|q[1-4])"
        "|next (?:week|month|quarter|year|meeting|session)|eod|eow|cob|(?:the )?close of business|noon|midnight"
        "|year[- ]end|month[- ]end|easter|christmas|(?:the )?\\d\\d?(?:st|nd|rd|th)(?: day)? of (?:each|every|the) (?:\\w+ )?month",
        joins="of|the",
        numbers="an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|fifteen|twenty|twenty-one"
        "|thirty|forty-five|sixty|ninety",
        periods="minutes?|hours?|days?|nights?|weeks?|months?|quarters?|years?",
        adjectives="business|working|calendar|full|further|additional|consecutive|more|clear",
        fillers="the|end|of|close|business|on|no|later|than|at|latest|noon|midnight|next|this|coming|about|around|and"
        "|including|early|mid|late|eod|start|beginning|middle|first|last|day|or|before|in",
        until="by|until|till|before|prior to|due|deadline|deadline is|deadline for|expires?|expiring|ends?|ending"
        "|valid through|valid to|through|payable|submitted|no later than|not later than|on or before|latest|up to"
        "|last day|closes|renews?|falls? due|term(?:inates?|ination)",
        overdue="at the latest|latest|is the deadline|deadline|is due|are due|falls due|is the last day|cut-off",
        within="within|no later than|not later than|not more than|no more than|in no more than|at the latest|deadline"
        "|notice period of|notice of|period of notice|by giving|in less than|in under|net|delivery in"
        "|due in|respond in",
        notice="(?:written |prior |advance |of |prior written )*notice|before|prior to|after|following|of receipt"
        "|from (?:receipt|the (?:date|day)|delivery|signature|invoice)|from (?:the )?\\w+ date|in advance|ahead|of the"
        " (?:date|invoice|receipt|delivery|notice)|net|beforehand|deadline|at the latest",
        lasting="for|during|dated|over|lasts?|last|every|past|previous|of|from|since|after|between",
        nouns=r"(?:moved|postponed|rescheduled|deferred|brought forward|extended)\b.{0,80}?\b(?:to|until)|stays at|delivery dates?"
        r"|(?:closing|expiry|end|target) dates?|notice periods?|periods? of notice|deadlines?|time limits?|cut-off|payment terms?|response times?"
        "|delivery times?|lead times?|due dates?",
        strong="no later than|not later than|at the latest|deadline|due dates?|on or before|net \\d\\d\\b|due (?:on|by)|overdue|eod",
        prompt="as soon as possible|asap|without (?:undue )?delay|immediately|promptly|forthwith|(?:first|last|\\d\\d?(?:st|nd|rd|th)) (?:\\w+ )?day of"
        " (?:each|every|the) \\w+",
    ),
    "de": Calendar(
        months="januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember|jan|feb|mär"
        "|apr|jun|jul|aug|sept|sep|okt|nov|dez",
        weekdays="montags?|dienstags?|mittwochs?|donnerstags?|freitags?|samstags?|sonnabends?|sonntags?|morgen|heute"
        "|übermorgen",
        ends="(?:ende|anfang|mitte) (?:des |der |dieses |dieser |nächste[rnms] )?(?:tag(?:e?s)?|woche|monats?|quartals?"
        "|jahres|q[1-4])|(?:monats|jahres|quartals|wochen|kalenderjahres|vertrags)ende|(?:zum )?ende (?:eines|des|jedes)"
        " (?:kalender)?(?:monats|quartals|jahres|vierteljahres|halbjahres)|nächste[rnms]? (?:woche|monat|quartal|jahr"
        "|sitzung)|ostern|weihnachten|feierabend|\\d\\d?\\. (?:tag )?(?:des|eines|jedes)(?: jeden)? \\w*(?:monats|quartals|jahres)",
        joins="der|des",
        numbers="einem|einer|eines|eine|einen|ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|vierzehn"
        "|fünfzehn|zwanzig|dreißig|dreissig|sechzig|neunzig",
        periods="minuten?|stunden?|tag(?:en?|s)?|werktag(?:en?|s)?|arbeitstag(?:en?|s)?|kalendertag(?:en?|s)?"
        "|bankarbeitstag(?:en?|s)?|wochen?|monat(?:en?|s)?|quartal(?:en?|s)?|jahr(?:en?|es)?|kalendermonat(?:en?|s)?",
        adjectives="weiteren?|vollen?|ganzen?|aufeinanderfolgenden?",
        fillers="zum|zur|spätestens|einschließlich|einschliesslich|inklusive|ende|anfang|mitte|des|der|dem|den|am|um|uhr"
        "|jeweils|nächsten?|kommenden?|diesen?|dieses|und|mit|ablauf|vor|nach|jahres",
        until="bis|vor|spätestens|längstens|fällig|fälligkeit|frist|endet|läuft|befristet|gültig|abgabe|stichtag|termin"
        "|deadline|mit ablauf|zum",
        overdue="fällig|zu zahlen|spätestens|ist stichtag|ablaufen|abläuft|endet|(?:ge)?kündbar",
        within="innerhalb|innerhalb von|innert|binnen|spätestens|frist von|längstens|nicht später als"
        "|vor ablauf von|nach ablauf von|zahlbar",
        notice="nach (?:zugang|erhalt|eingang|rechnung\\w*|lieferung|vertrags\\w+|dem|der|kenntnis|ablauf|abnahme)|vor\\b"
        "|ab (?:zugang|erhalt|rechnung\\w*|lieferung|eingang|dem)|im voraus|netto|(?:zum|vor) (?:\\w+ ){0,2}\\w*ende"
        "|nach|frist|vorher|zuvor|zum (?:\\w+ ){0,3}(?:quartal|monat|jahr)\\w*",
        lasting="für|während|seit|vom|von|über|dauert|jede|alle|letzten?|in den",
        nouns="verschoben|verlegt auf|verlängert bis|vorgezogen|liefertermin\\w*|\\w*frist(?:en)?|zahlungsziel\\w*|lieferzeit\\w*|reaktionszeit\\w*|deadlines?|stichtag\\w*",
        strong="spätestens|fristgerecht|\\w*fälligkeit\\w*|fällig|\\w+frist(?:en)? (?:beträgt"
        "|betragen|endet|läuft)|zahlungsziel|stichtag|einsendeschluss|abgabetermin\\w*|abgabeschluss|deadline|innerhalb der"
        " frist",
        prompt="unverzüglich|umgehend|sofort|ohne schuldhaftes zögern|baldmöglichst|(?:ersten|zweiten|dritten|fünften|letzten|\\d\\d?\\.)"
        " (?:\\w*tag|tag) (?:eines|des|jedes|der)(?: jeden)? \\w+",
    ),
    "fr": Calendar(
        months="janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre|janv|févr|avr|juil"
        "|sept|oct|nov|déc",
        weekdays="lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|demain|aujourd['’]hui|ce soir",
        ends="(?:la )?(?:fin|mi|début)[ -](?:de |du |d['’]|de la |de l['’])?(?:mois|semaine|trimestre|année|an|journée)"
        "|(?:la )?semaine prochaine|(?:le )?mois prochain|midi|minuit|noël|pâques|\\d\\d? (?:du|de chaque) mois",
        joins="de|du",
        numbers="une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|douze|quinze|vingt|trente|quarante|soixante"
        "|quatre-vingt-dix",
        periods="minutes?|heures?|jours?|semaines?|mois|trimestres?|ans?|années?",
        adjectives="jours|derniers?|autres",
        fillers="le|la|au|à|fin|de|du|plus|tard|et|inclus|y|compris|mi|début|prochaine?|ce|l|jour|dernier|jusqu",
        until="avant|d['’]ici|jusqu['’]au|jusqu['’]à|jusqu['’]en|jusqu|au plus tard|échéance|exigible|expire|prend fin"
        "|se termine|date limite|pour|délai|dû|due|payable|butoir|terme|clôture",
        overdue="au plus tard|dernier délai|est la date limite|date limite|inclus",
        within="dans un délai|délai|délais|préavis|sous|dans les|au plus tard|d['’]ici|endéans|moyennant|maximum de|avant",
        notice="à compter|après|avant|suivant|qui suivent|de préavis|au plus tard|à partir|dès|fin de mois|net|ouvrés?"
        "|ouvrables?|calendaires?|au moins",
        lasting="pendant|durant|depuis|pour|du|daté|tous les|en date",
        nouns="reportée?s?|repoussée?s?|prolongée?s?|délais?|préavis|échéances?|date limite",
        strong="au plus tard|date limite|échéances?|date butoir|dernier délai|exigible",
        prompt="sans délai|immédiatement|dans les meilleurs délais|dès que possible|(?:premier|dernier) jour (?:\\w+ )?(?:de chaque|du) \\w+",
    ),
    "es": Calendar(
        months="enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|setiembre|octubre|noviembre|diciembre|ene"
        "|feb|abr|jun|jul|ago|sept|oct|nov|dic",
        weekdays="lunes|martes|miércoles|jueves|viernes|sábado|domingo|mañana|hoy",
        ends="(?:el |la )?(?:final|finales|fin|principios|mediados) (?:de |del |de la )?(?:mes|semana|trimestre|año|día)"
        "|la próxima semana|el próximo mes|mediodía|medianoche|navidad|(?:día )?\\d\\d? (?:de cada|del) mes",
        joins="de|del",
        numbers="una?|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce|catorce|quince|veinte|treinta|sesenta"
        "|noventa",
        periods="minutos?|horas?|días?|semanas?|mes(?:es)?|trimestres?|años?",
        adjectives="primeros|siguientes|últimos",
        fillers="el|la|al|a|más|tardar|de|del|día|final|finales|fin|y|inclusive|próximo|este|principios|mediados|que",
        until="antes del?|hasta|hasta el|a más tardar|vence|vencimiento|fecha límite|plazo|finaliza|termina|expira"
        "|para el|pagadero|caduca",
        overdue="a más tardar|como máximo|como fecha límite|inclusive|vence",
        within="dentro de|dentro de los|en un plazo|plazo|plazo de|plazo máximo|en el término de|preaviso|preaviso de"
        "|a más tardar|antelación|antelación de|en menos de|a los|antes de",
        notice="de antelación|de preaviso|antes|después|siguientes|desde|a partir|a contar|naturales|hábiles|laborables"
        "|previos?|como máximo",
        lasting="durante|desde|por|de fecha|cada",
        nouns="aplazad[oa]s?|pospuest[oa]s?|prorrogad[oa]s?|plazos?|preaviso|vencimientos?|fecha límite|antelación",
        strong="a más tardar|fecha límite|vencimiento|vence",
        prompt="sin demora|inmediatamente|de inmediato|lo antes posible",
    ),
    "it": Calendar(
        months="gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre|novembre|dicembre|gen|feb"
        "|apr|mag|giu|lug|ago|set|ott|nov|dic",
        weekdays="lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|domani|oggi",
        ends="(?:la )?(?:fine|metà|inizio)(?: di| del| della| dell['’])? ?(?:mese|settimana|trimestre|anno|giornata)"
        "|la prossima settimana|il prossimo mese|mezzogiorno|mezzanotte|natale|\\d\\d? (?:di ogni|del) mese",
        joins="di|del",
        numbers="una?|uno|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|dodici|quindici|venti|trenta|sessanta|novanta",
        periods="minut[oi]|or[ae]|giorn[oi]|settiman[ae]|mes[ei]|trimestr[ei]|ann[oi]",
        adjectives="primi|successivi|ulteriori",
        fillers="il|la|e|non|oltre|al|del|di|fine|tardi|più|giorno|prossimo|questo|inizio|metà|lo|l|dell|le|ore",
        until="entro|entro il|entro e non oltre|fino al|prima del|non oltre|al più tardi|scade|scadenza|termine"
        "|termina|entro la|entro l",
        overdue="al più tardi|è la scadenza|come termine|scadenza",
        within="entro|entro il termine|termine di|preavviso|preavviso di|non oltre|nel termine|al più tardi|in meno di",
        notice="di preavviso|prima|dopo|dalla|dal|successivi|a decorrere|lavorativi|di anticipo|data fattura|netti",
        lasting="per|durante|da|in data|ogni",
        nouns="rinviat[oaei]|posticipat[oaei]|prorogat[oaei]|preavviso|termin[ei]|scadenz[ae]",
        strong="al più tardi|entro e non oltre|scadenz[ae]|non oltre|scade",
        prompt="senza indugio|immediatamente|tempestivamente|al più presto",
    ),
    "pt": Calendar(
        months="janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro|jan|fev|abr|jun"
        "|jul|ago|set|out|nov|dez",
        weekdays="segunda-feira|terça-feira|quarta-feira|quinta-feira|sexta-feira|sábado|domingo|amanhã|hoje",
        ends="(?:o |ao )?(?:final|fim|início|meados) (?:de |do |da )?(?:mês|semana|trimestre|ano|dia)|a próxima semana"
        "|o próximo mês|meio-dia|meia-noite|natal",
        joins="de|do",
        numbers="uma?|dois|duas|três|quatro|cinco|seis|sete|oito|nove|dez|doze|quinze|vinte|trinta|sessenta|noventa",
        periods="minutos?|horas?|dias?|semanas?|mês|meses|trimestres?|anos?",
        adjectives="primeiros|seguintes|últimos",
        fillers="o|a|ao|dia|de|do|da|final|fim|mais|tardar|próximo|próxima|este|e|inclusive|início|meados",
        until="até|até ao|até o|antes de|antes do|o mais tardar|vence|vencimento|prazo|data limite|termina|expira",
        overdue="o mais tardar|no máximo|data limite|inclusive",
        within="dentro de|no prazo de|prazo|prazo de|prazo máximo|em até|até|antecedência de|aviso prévio de|em menos de",
        notice="de antecedência|de aviso|antes|após|depois|seguintes|a contar|a partir|úteis|corridos|da data|no máximo",
        lasting="durante|desde|por|de data|cada",
        nouns="adiad[oa]s?|prorrogad[oa]s?|prazos?|aviso prévio|vencimentos?|antecedência|data limite",
        strong="o mais tardar|data limite|vencimento|prazo final|vence",
        prompt="imediatamente|sem demora|o mais rápido possível",
    ),
    "nl": Calendar(
        months="januari|februari|maart|april|mei|juni|juli|augustus|september|oktober|november|december|jan|feb|mrt|apr"
        "|jun|jul|aug|sept|sep|okt|nov|dec",
        weekdays="maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag|morgen|vandaag|overmorgen",
        ends="(?:het )?(?:eind|einde|begin|midden) (?:van )?(?:de |het |deze )?(?:dag|week|maand|kwartaal|jaar)"
        "|volgende (?:week|maand|vergadering)|volgend jaar|kerst",
        joins="van",
        numbers="een|één|twee|drie|vier|vijf|zes|zeven|acht|negen|tien|twaalf|veertien|vijftien|twintig|dertig|zestig",
        periods="minu(?:ut|ten)|u(?:ur|ren)|dag(?:en)?|werkdag(?:en)?|we(?:ek|ken)|maand(?:en)?|kwarta(?:al|len)|ja(?:ar|ren)",
        adjectives="volle|kalender",
        fillers="de|het|en|met|uiterlijk|op|eind|einde|van|begin|midden|aanstaande|komende|deze|volgende|om|uur",
        until="voor|vóór|uiterlijk|tot|tot en met|deadline|vervalt|eindigt|vervaldatum|loopt af|per",
        overdue="uiterlijk|is de deadline|als uiterste datum|vervalt",
        within="binnen|uiterlijk|termijn|termijn van|opzegtermijn van|niet later dan",
        notice="na|voor|vóór|van tevoren|vooraf|opzegtermijn|netto|na ontvangst|na factuurdatum",
        lasting="gedurende|sinds|van|elke|om de",
        nouns="verschoven|uitgesteld|verlengd|\\w*termijn(?:en)?|deadlines?|vervaldatum|levertijd\\w*",
        strong="uiterlijk|deadline|vervaldatum|uiterste datum",
        prompt="onverwijld|onmiddellijk|zo spoedig mogelijk",
    ),
}
