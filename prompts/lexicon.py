"""
What a sentence of each kind looks like in each language: a table of patterns, read by ``kinds``.

A kind is what a reader asks for: obligations, action items, risks. Each value is a list of alternatives for a regular
expression that stands between word borders and ignores case; under ``ACTORS`` case counts, because only there a name
matters. No pattern repeats without a bound, so that none can run away on hostile text. Deadlines, dates, amounts and
contacts are not here: they follow from numbers (``dates``, ``kinds``).
"""

from collections.abc import Mapping
from typing import Final

KINDS: Final = (
    "obligation",
    "deadline",
    "date",
    "amount",
    "owner",
    "action",
    "definition",
    "step",
    "risk",
    "decision",
    "right",
    "contact",
    "open",
)
"""Every kind, in the order in which an answer names them. ``open`` is an open question."""

_ROLES: Final = (
    "(?:supplier|customer|contractor|client|seller|buyer|purchaser|vendor|provider|licensor|licensee|tenant|landlord"
    "|lessor|lessee|employer|employee|company|consultant|agency|borrower|lender|bank|insurer|party|parties|operator"
    "|subcontractor|processor|controller|user|member|participant|applicant|bidder|we|you)"
)

PATTERNS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "obligation": r"shall|must|(?:is|are|be|being) (?:\w+ )?(?:required|obliged|obligated|bound|committed|under an?"
        r" (?:duty|obligation)) to|(?:is|are|be) (?:\w+ )?responsible for|(?:agrees?|undertakes?|covenants?|commits?"
        r"|promises?|warrants?)(?: itself| themselves)? (?:to|that|not to)|(?:has|have) to|needs? to|needs|requires?|may not|may only"
        r"|(?:is|are) not (?:allowed|permitted|entitled) to|(?:is|are) (?:prohibited|forbidden)|obligations? to|duty to"
        rf"|{_ROLES} will",
        "exempt": r"(?:shall|must|will) (?:mean|be (?:deemed|construed|governed|interpreted|understood|binding|effective)|prevail|survive"
        r"|commence|continue|expire|remain (?:in|valid|un)|come into|enter into force|take effect|become effective|apply|have the"
        r" meaning|include but)|(?:agreement|contract|licen[cs]e|section|clause|annex|schedule|term|law|laws|nothing"
        r"|provision|invalidity|courts?) (?:\w+ ){0,3}(?:shall|must|will|may not)|no (?:amendment|waiver|failure|delay"
        r"|variation|change)\b.{0,80}?\bshall|must be understood|must have been|will be deemed",
        "owner": r"responsible(?: for)?|responsibility|in charge of|owner|owned by|assigned to|assignee|accountable"
        r"|led by|handled by|takes? (?:over|care of)|point of contact|contact person",
        "action": r"(?:could|can|would|will) you|please (?!note|see|find|refer|contact|visit)\w+|actions?(?: items?| points?)?(?: \d+)?:|to-?do:?|follow[- ]?up:|next steps?:|tasks?:|"
        r"(?:we|i|he|she|they)(?: will|['’]ll) (?!be\b|have\b|not\b|remain|see\b|need\b)\w+|(?:offered"
        r"|promised|volunteered) to \w+",
        "definition": r"means|(?:shall|is to|will) mean|(?:is|are) defined (?:as|in)|refers? to|has the meaning"
        r"|have the meaning|in this agreement,? the (?:term|expression)s?|stands for|is understood as",
        "step": r"steps? \d+|first(?:ly)?,|then,? (?!the\b|a\b)\w+|next,|finally,|to (?:install|start|run|create|set up"
        r"|configure|use|enable|open|build)\b.{0,60}?[,:]|how to|in order to|run the following|follow these",
        "risk": r"risks?|dangers?|threats?|hazards?|vulnerab\w+|exposure|penalt(?:y|ies)|breach\w*|liquidated damages"
        r"|delays? (?:may|might|could|would)|(?:may|might|could) (?:fail|be delayed|not be|cause|lead|result|slip|lose)"
        r"|fails? to|failure to|blockers?|bottlenecks?|concern(?:s|ed)? (?:about|that)|not guaranteed|single point"
        r"|at stake|uncertain\w*|warning|caution",
        "decision": r"decided|decisions?:?|agreed (?:that|on|to)|resolved (?:to|that)|approved|adopted|rejected|chosen"
        r"|it was agreed|unanimously|postponed|confirmed that|signed off|go ahead",
        "right": r"may (?!not\b|only\b|be\b|have\b|result\b|cause\b|lead\b|fail\b)\w+|(?:is|are|be) (?:entitled|permitted"
        r"|allowed|free) to|rights? to|reserves? the right",
        "open": r"open (?:questions?|issues?|points?)|to be (?:decided|clarified|confirmed|determined|agreed)|tbd|tbc"
        r"|unclear|unresolved|not yet (?:decided|clear|known|agreed)|clarif(?:y|ied) (?:with|by|whether)|pending",
    },
    "de": {
        "obligation": r"muss|müssen|hat\b.{1,120}?\b(?:zu \w+n|\w+zu\w+en)|haben\b.{1,120}?\b(?:zu \w+n|\w+zu\w+en)"
        r"|(?:ist|sind|wird|werden|bleibt)\b.{0,60}?\bverpflichtet|verpflichte[tn] sich|(?:ist|sind)\b.{1,120}?\bzu"
        r" \w+en|obliegt|obliegen|darf(?: \w+){0,4} (?:nicht|nur|keine?n?)|dürfen(?: \w+){0,4} (?:nicht|nur|keine?n?)"
        r"|schuldet|hat (?:die|eine) pflicht|pflicht(?:en)?,|haftet|sorgt dafür|stellt sicher|gewährleistet"
        r"|ist unzulässig|untersagt|verboten",
        "exempt": r"(?:ist|sind) (?:darunter|hierunter) zu verstehen|(?:vertrag|vereinbarung) muss|im \w+ zu sehen"
        r"|muss es heißen|zu (?:ersehen|finden|erreichen|lesen)",
        "owner": r"verantwortlich\w*|zuständig\w*|verantwortung|federführ\w+|leitet|leitung hat|übernimmt|übernehmen"
        r"|kümmert sich|betreut|koordiniert|ansprechpartner\w*|beauftragt",
        "action": r"(?:könnte?s?t?|könnten|kannst|würde?s?t?) (?:du|sie|ihr)|bitte \w+|aufgabe\w*:|to-?dos?:?|maßnahme\w*:|nächste schritte:|aktion:|(?:ich|wir|er|sie) (?:werde[nt]?|wird)"
        r" \w+|übernimmt|kümmert sich um|erledigt|soll(?:en)? bis|klärt|bereitet\b.{1,80}?\bvor|stimmt\b.{1,80}?\bab",
        "definition": r"bedeutet|bezeichnet|im sinne (?:dieses|dieser|von|des|der)|(?:ist|sind|gilt|gelten) als"
        r"|wird definiert|ist definiert|unter \w+ (?:ist|sind|versteht|verstehen)|nachfolgend|im folgenden|definition",
        "step": r"schritt \d+|zuerst|zunächst|anschließend|danach|abschließend|um\b.{1,60}?\bzu \w+n,|gehen sie"
        r"|klicken sie|öffnen sie|wählen sie|geben sie|führen sie|so geht|anleitung",
        "risk": r"risik\w+|gefahr\w*|gefährd\w+|bedroh\w+|schwachstelle\w*|verzug|vertragsstrafe\w*|haft(?:et|ung\w*)"
        r"|verletz\w+|verzöger\w+|ausfall\w*|ausfällt|engpass|engpässe|könnte\w* (?:\w+ ){0,4}(?:scheitern|fehlen|führen)"
        r"|warnung|vorsicht|unsicher\w*|bedenken",
        "decision": r"beschlossen|beschließt|beschluss\w*|entschieden|entscheidung:?|vereinbart|genehmigt|abgelehnt"
        r"|angenommen|verabschiedet|einstimmig|vertagt|verschoben|freigegeben|einigt\w* sich|wurde festgelegt",
        "right": r"(?:darf|dürfen)(?! (?:\w+ ){0,5}(?:nicht|nur|keine?n?))\b|(?:ist|sind)\b.{0,60}?\bberechtigt"
        r"|hat das recht|haben das recht|recht auf|anspruch auf|kann\b.{0,80}?\b(?:kündigen|widerrufen|verlangen"
        r"|zurücktreten)|können\b.{0,80}?\b(?:kündigen|widerrufen|verlangen|zurücktreten)|steht\b.{0,40}?\bzu",
        "open": r"offene (?:fragen?|punkte?)|noch (?:offen|unklar|zu klären|nicht)|ist zu klären|unklar|ungeklärt"
        r"|zu klären|wird (?:noch )?geklärt|ausstehend",
    },
    "fr": {
        "obligation": r"doi(?:t|vent)|devr(?:a|ont)|(?:est|sont|sera|seront) (?:\w+ )?(?:tenue?s?|obligée?s?|contrainte?s?)"
        r" (?:de|d|à)|s['’]engage(?:nt)? à|s['’]oblige(?:nt)? à|ne (?:peut|peuvent|pourra|pourront)|(?:il )?incombe"
        r"|a l['’]obligation|ont l['’]obligation|est responsable de|veille(?:nt)? à|est interdite?|il (?:faut|est interdit)"
        r"|est à la charge|s['’]assure",
        "exempt": r"doi(?:t|vent) (?:être (?:compris|entendu|interprété)|s['’]entendre)",
        "owner": r"responsables?|en charge de|chargée?s? de|se charge de|s['’]occupe de|pilote|coordonne|prend en charge"
        r"|attribuée? à|confiée? à|interlocuteur",
        "action": r"(?:pourrais|pourriez|peux|pouvez)[- ](?:tu|vous)|merci de|veuillez|actions?(?: \d+)? ?:|à faire|tâches? ?:|prochaines étapes ?:|(?:nous|je|il|elle|ils) (?:allons|vais|va"
        r"|vont) \w+|se charge de|s['’]occupe de|enverra|préparera|contactera|transmettra|organisera|rédigera",
        "definition": r"désigne(?:nt)?|signifie(?:nt)?|(?:est|sont) définie?s?|on entend par|s['’]entend|ci-après"
        r"|au sens d[ue]",
        "step": r"étape \d+|d['’]abord|ensuite|puis,?|enfin,|pour (?:installer|lancer|créer|utiliser|configurer)"
        r"|cliquez|ouvrez|sélectionnez|saisissez",
        "risk": r"risques?|dangers?|menaces?|vulnérab\w+|pénalités?|retards?|manquement\w*|défaillances?|défaut de"
        r"|responsabilité|pourrai(?:t|ent)|incertitudes?|attention|mise en demeure",
        "decision": r"décidée?s?|décide(?:nt)? de|décisions? ?:?|convenue?s?|approuvée?s?|adoptée?s?|rejetée?s?|validée?s?"
        r"|à l['’]unanimité|reportée?s?|arrêtée?s? que",
        "right": r"peu(?:t|vent) (?!pas|être)\w+|pourr(?:a|ont)|a le droit|ont le droit|est autorisée?|se réserve|droit de",
        "open": r"questions? ouvertes?|à (?:décider|clarifier|confirmer|préciser|définir)|en suspens|reste à|pas encore",
    },
    "es": {
        "obligation": r"debe(?:n|rá|rán)?|(?:está|están|estará|queda|quedan) (?:\w+ )?obligad[oa]s?|se compromete(?:n)?"
        r"|se obliga(?:n)?|no (?:podrá|podrán|puede|pueden)|(?:tiene|tienen|tendrá|tendrán) (?:que|la obligación)|ha(?:n)? de"
        r"|es responsable de|corresponde(?:rá)? a|está prohibid[oa]|obligación de",
        "exempt": r"debe entenderse",
        "owner": r"responsables?|encargad[oa]s?|se encarga(?:rá)?|a cargo de|asignad[oa]s? a|se ocupa(?:rá)?|coordina",
        "action": r"(?:podrías|puedes) \w+r|por favor|acci(?:ón|ones)(?: \d+)?:|tareas?:|por hacer|próximos pasos:|se encargará|enviará|preparará|contactará"
        r"|revisará|organizará|redactará|vamos a \w+|va a \w+",
        "definition": r"significa|se entiende por|se entenderá|se define|definid[oa]s?|en adelante|a efectos de",
        "step": r"paso \d+|primero|a continuación|luego|después,|finalmente|para (?:instalar|iniciar|crear|usar|configurar)"
        r"|haga clic|seleccione|abra",
        "risk": r"riesgos?|peligros?|amenazas?|vulnerab\w+|penalizaci\w+|penalidad\w*|incumplimient\w+|retrasos?|demoras?"
        r"|responsabilidad|podría[n]?|incertidumbre|advertencia",
        "decision": r"decidi(?:ó|do|eron)|decisi(?:ón|ones):?|acord(?:ó|ado|aron)|se acuerda|aprob(?:ó|ado|aron|ada)"
        r"|rechaz(?:ó|ado)|por unanimidad|aplaza\w*",
        "right": r"(?:podrá|podrán|puede|pueden) \w+|tiene(?:n)? derecho|está(?:n)? facultad\w+|se reserva|derecho a",
        "open": r"preguntas? abiertas?|por (?:decidir|aclarar|confirmar|definir)|pendientes?|aún no|sin resolver",
    },
    "it": {
        "obligation": r"dev(?:e|ono)|dovr(?:à|anno)|(?:è|sono|sarà|saranno) (?:\w+ )?(?:tenut[oaie]|obbligat[oaie])"
        r"|si (?:impegna|impegnano|obbliga|obbligano)|non (?:può|possono|potrà|potranno)|ha l['’]obbligo|hanno l['’]obbligo"
        r"|è responsabile|è fatto obbligo|spetta a|è vietato|è a carico",
        "exempt": r"deve intendersi|devono intendersi",
        "owner": r"responsabil[ei]|incaricat[oaie]|si occupa|si occuperà|a cura di|assegnat[oaie] a|coordina|referente",
        "action": r"(?:potresti|puoi) \w+re|per favore|azion[ei](?: \d+)?:|da fare|attività:|compit[oi]:|prossimi passi:|si occuperà|invierà|preparerà"
        r"|contatterà|verificherà|organizzerà|redigerà",
        "definition": r"significa|si intende|si intendono|s['’]intende|è definit[oa]|di seguito|ai sensi d\w+",
        "step": r"passo \d+|fase \d+|prima di tutto|innanzitutto|quindi|infine|per (?:installare|avviare|creare|usare)"
        r"|fare clic|selezionare|aprire",
        "risk": r"rischi\w*|pericol\w+|minacc\w+|vulnerab\w+|penal[ei]|inadempi\w+|ritard\w+|responsabilità"
        r"|potrebbe(?:ro)?|incertezz\w+|attenzione|mora",
        "decision": r"decis[oaie]|decisione:?|deliberat[oaie]|delibera|approvat[oaie]|concordat[oaie]|respint[oaie]"
        r"|all['’]unanimità|rinviat[oaie]|si decide",
        "right": r"(?:può|possono|potrà|potranno) \w+|ha (?:il )?diritto|hanno (?:il )?diritto|è autorizzat\w+|facoltà di"
        r"|si riserva",
        "open": r"domande aperte|da (?:decidere|chiarire|confermare|definire)|in sospeso|non ancora|irrisolt\w+",
    },
    "pt": {
        "obligation": r"deve(?:m|rá|rão)?|(?:é|são|está|fica|ficam) (?:\w+ )?obrigad[oa]s?|compromete(?:m)?-se|obriga(?:m)?-se"
        r"|se (?:compromete|obriga)\w*|não (?:pode|podem|poderá|poderão)|t[eê]m (?:de|que)|é responsável|cabe a[o]?|compete a"
        r"|é proibid[oa]",
        "exempt": r"deve entender-se",
        "owner": r"responsáve(?:l|is)|encarregad[oa]s?|a cargo de|atribuíd[oa]s? a|ficará com|coordena",
        "action": r"(?:poderias|podes) \w+r|por favor|aç(?:ão|ões)(?: \d+)?:|tarefas?:|próximos passos:|por fazer|enviará|preparará|vai \w+r|contactará",
        "definition": r"significa|entende-se por|define-se|definid[oa]s?|doravante|para efeitos de",
        "step": r"passo \d+|primeiro|em seguida|depois,|por fim|para (?:instalar|iniciar|criar|usar)|clique|selecione",
        "risk": r"riscos?|perigos?|ameaças?|vulnerab\w+|penalidades?|multas?|incumpriment\w+|inadimpl\w+|atrasos?"
        r"|responsabilidade|poderia[m]?|incerteza",
        "decision": r"decidi(?:u|do|ram)|decis(?:ão|ões):?|acordado|aprovad[oa]s?|rejeitad[oa]s?|por unanimidade|adiad[oa]s?",
        "right": r"(?:pode|podem|poderá|poderão) \w+|t[eê]m (?:o )?direito|reserva-se|direito a",
        "open": r"perguntas? em aberto|por (?:decidir|esclarecer|confirmar|definir)|pendentes?|ainda não",
    },
    "nl": {
        "obligation": r"moet(?:en)?|(?:is|zijn|wordt) (?:\w+ )?verplicht|verplicht(?:en)? zich|dien(?:t|en)\b.{1,100}?\bte"
        r"|mag (?:\w+ ){0,3}(?:niet|geen|alleen)|mogen (?:\w+ ){0,3}(?:niet|geen|alleen)|zal|zullen|is verantwoordelijk"
        r"|zorgt ervoor|draagt zorg|verboden|heeft de plicht",
        "exempt": r"moet worden verstaan|zal worden verstaan",
        "owner": r"verantwoordelijk\w*|eigenaar|toegewezen aan|neemt\b.{1,60}?\bop zich|coördineert|contactpersoon",
        "action": r"(?:kun|kunt|zou) (?:je|u)|graag|acties?(?: \d+)?:|actiepunt\w*|taken?:|te doen|volgende stappen:|zal \w+|gaat \w+|stuurt|bereidt",
        "definition": r"betekent|wordt verstaan|wordt bedoeld|gedefinieerd|hierna|in de zin van",
        "step": r"stap \d+|eerst|vervolgens|daarna|ten slotte|om\b.{1,50}?\bte \w+,|klik|open de|kies",
        "risk": r"risico\w*|gevaar\w*|gevaren|bedreiging\w*|kwetsba\w+|boete\w*|verzuim|tekortkoming\w*|vertraging\w*"
        r"|aansprakelijk\w*|zou(?:den)? kunnen|onzeker\w*|waarschuwing",
        "decision": r"besloten|besluit\w*:?|overeengekomen|goedgekeurd|afgewezen|vastgesteld|unaniem|uitgesteld",
        "right": r"mag (?!niet|geen)\w+|mogen (?!niet|geen)\w+|heeft het recht|hebben het recht|(?:is|zijn) gerechtigd"
        r"|is bevoegd|recht op",
        "open": r"open (?:vragen|punten)|nog (?:te|niet|onduidelijk)|onduidelijk|openstaand\w*",
    },
}

ACTORS: Final[Mapping[str, str]] = {
    "en": r"\b(?!The |This |It |There |That |You |These |Those )[A-Z][\w'’-]+(?: (?:[A-Z][\w'’.-]+|and|&)){0,3} (?:will|is to|are to|has to"
    r"|needs to|agreed to|offered to|promised to|takes over|takes care of) (?!be\b|have\b|not\b|remain\b|become\b|apply\b"
    r"|include\b|contain\b|expire\b|mean\b)[a-z]+|(?:^|[:;] )(?!Subject |Access |Write |Talk |Refer |Apply |Reply |Send |Respond |Speak |Listen |Due |According |Prior |Pursuant |Introduction"
    r" |Thanks |Welcome |Back |Up |How |Next |Return |Go |Want |Need |As |In |Used |Able |The )(?:[A-Z][\w'’.-]+"
    r" (?:and |& )?){1,3}to (?!the\b|an?\b|th[ai]t\b|this\b|these\b|those\b|our\b|your\b|their\b|his\b|her\b|its\b|all\b"
    r"|any\b|be\b|each\b)[a-z]+\b(?!@)",
    "de": r"(?:^|[:;] |\bFrau |\bHerr )(?!(?:D(?:er|ie|as|ies\w*)|Eine?|Es|Jede\w*|Keine?|[AI]m|In|Bei|Für|Auf|Nach|Vor|Mit|Zu"
    r"|Sie|Wir|Er|Bis) )[A-ZÄÖÜ][\w.-]+(?: (?:[A-ZÄÖÜ][\w.-]+|und)){0,3} (?:(?:wird|werden|soll|sollen|muss)\b[^.;]{1,160}\b(?!ge)\w+(?:en|ern|eln)(?=[.;,!]|$)|erstellt|prüft|sendet"
    r"|schickt|organisiert|liefert|informiert|stellt|aktualisiert|meldet|holt|schreibt|plant|verschickt|reicht|legt|bespricht"
    r"|kontaktiert|bestellt|versendet|überarbeitet|dokumentiert|testet|bereitet|stimmt|lädt|ruft)\b",
    "fr": r"(?:^|[:;] )(?!(?:L[ea]s?|Une?|Il|Elle|On|Ce\w*|Tou\w*) )[A-ZÉÈÀÂ][\w.-]*(?: (?:[A-ZÉ][\w.-]+|et)){0,3} (?:doit|va"
    r"|envoie|prépare|vérifie|contacte|organise|rédige|transmet|présente|finalise)\b",
    "es": r"(?:^|[:;] )(?!(?:El|L[ao]s?|Una?|Se|Este|Esta) )[A-ZÁÉÍÓÚ][\w.-]+(?: (?:[A-ZÁÉÍÓÚ][\w.-]+|y)){0,3} (?:debe|va a"
    r"|envía|prepara|revisa|contacta|organiza|redacta|presenta|hará)\b",
    "it": r"(?:^|[:;] )(?!(?:Il|L[aeo]|I|Gli|Una?|Si|Questo|Questa) )[A-ZÀÈ][\w.-]+(?: (?:[A-ZÀÈ][\w.-]+|e)){0,3} (?:deve|invia"
    r"|prepara|verifica|contatta|organizza|redige|presenta|farà)\b",
    "pt": r"(?:^|[:;] )(?!(?:O|A|Os|As|Uma?|Este|Esta) )[A-ZÁÉÍÓÚÂ][\w.-]+(?: (?:[A-ZÁÉ][\w.-]+|e)){0,3} (?:deve|vai|envia"
    r"|prepara|verifica|contacta|organiza|apresenta|fará)\b",
    "nl": r"(?:^|[:;] )(?!(?:De|Het|Een|Dit|Deze|Er|Wij|Zij) )[A-Z][\w.-]+(?: (?:[A-Z][\w.-]+|en)){0,3} (?:zal|gaat|moet"
    r"|stuurt|maakt|controleert|organiseert|neemt|belt|schrijft|regelt)\b",
}
"""A named person who does something: what an action item looks like. Case counts here."""

PASSIVE: Final[Mapping[str, str]] = {
    "en": r"(?:shall|must|may|will|is to|are to|has to|have to)(?: not| only)? be (?!responsible|liable|entitled|obliged|able)\w+"
    r"(?:ed|en|t|d)\b(?! by)",
    "de": r"(?:müssen|muss|darf|dürfen|soll|sollen)\b.*\bwerden|(?:ist|sind)\b.*\b(?:zu \w+en|\w+zu\w+en)",
    "fr": r"(?:doit|doivent|devra|devront) être",
    "es": r"debe(?:n|rá|rán)? ser",
    "it": r"dev(?:e|ono) essere|dovr(?:à|anno) essere",
    "pt": r"deve(?:m|rá|rão)? ser",
    "nl": r"(?:moet|moeten|dient|dienen)\b.*\bworden",
}
"""An obligation that names nobody who has it: no answer to who is responsible."""

CURRENCIES: Final = (
    r"€|\$|£|¥|₹|EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK|CAD|AUD|BRL|euros?|dollars?|pounds?|francs?|franken|cents?"
    r"|reais|Fr\."
)
"""What makes a number an amount of money, before or after it."""
