"""
How a reader asks: words for each kind of finding, request verbs, quantifiers and synonyms, as a table per language.

``objectives`` reads a request with these, and ``kinds`` reads headings and column headers with them, since an author who
writes "Deadlines" over a list means the same as a reader who asks for deadlines. Values are alternatives for a regular
expression between word borders that ignores case. A group called ``topic`` holds what a compound says beside its kind:
"Kündigungsfristen" asks for deadlines and is about "Kündigung".
"""

from collections.abc import Mapping
from typing import Final

ASKS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "obligation": r"obligations?|dut(?:y|ies)|commitments?|requirements?|undertakings?|covenants?|must(?: do)?|obliged"
        r"|required to|have to|has to",
        "deadline": r"deadlines?|due(?: dates?| by)?|by when|until when|time ?limits?|time ?frames?|cut-?offs?(?: dates?)?"
        r"|expiry dates?|(?P<topic>notice) periods?|key dates|important dates|milestones?|time ?lines?",
        "date": r"dates?|schedules?|timing",
        "amount": r"amounts?|prices?|pricing|costs?|fees?|(?<!in )charges?|rates?|how much|sums? of money",
        "owner": r"owners?|responsib(?:le|ility|ilities)|assignees?|assigned to|accountable|in charge|who does what",
        "action": r"action (?:items?|points?)|actions?|to-?dos?(?: lists?)?|tasks?|next steps|follow-?ups?|assignments?",
        "definition": r"definitions?|defined(?: terms)?|meaning of|definition of|define|glossary",
        "step": r"steps?|how to|how (?:do|can|should) (?:i|we|you|one)|instructions?|procedures?",
        "risk": r"risks?|dangers?|threats?|hazards?|red flags?|pitfalls?|vulnerabilit(?:y|ies)",
        "decision": r"decisions?|decided|resolutions?|resolved|what was agreed|agreed on",
        "right": r"rights?|entitlements?|entitled",
        "contact": r"contacts?(?: details| persons?| data)?|e-?mail address(?:es)?|phone numbers?|telephone",
        "open": r"open (?:questions?|issues?|points?)|unresolved|unclear points",
    },
    "de": {
        "obligation": r"(?P<topic>\w*?)pflicht(?:en)?|verpflichtung(?:en)?|verpflichtet|anforderung(?:en)?|muss|müssen"
        r"|auflagen?",
        "deadline": r"(?P<topic>\w*?)frist(?:en)?|deadlines?|bis wann|fälligkeit(?:en|sdatum)?|fällig|stichtage?|zahlungsziele?"
        r"|(?P<topic2>\w*?)termine?n?|meilensteine?",
        "date": r"daten|datum|zeitplan|zeitpunkte?",
        "amount": r"(?P<topic>\w*?)preise?n?|(?P<topic2>\w*?)kosten|beträge?|betrag|(?P<topic3>\w*?)gebühr(?:en)?|wie ?viel"
        r"|entgelte?|vergütung(?:en)?|honorare?|summen?",
        "owner": r"verantwortlich(?:e[rn]?|keit(?:en)?)?|zuständig(?:e[rn]?|keit(?:en)?)?|verantwortung|wer macht was|besitzer",
        "action": r"aufgaben?|to-?dos?|maßnahmen?|nächste[n]? schritte|aktionspunkte?|aktionen|pendenzen",
        "definition": r"definition(?:en)?|begriffsbestimmung(?:en)?|definiert|bedeutung|begriffe",
        "step": r"schritte?n?|anleitung(?:en)?|wie (?:kann|muss|soll) (?:ich|man)|wie man|vorgehen|vorgehensweise",
        "risk": r"(?P<topic>\w*?)risik(?:o|en)|gefahr(?:en)?|bedrohung(?:en)?|schwachstellen?",
        "decision": r"beschl(?:uss|üsse)|beschlossen|entscheidung(?:en)?|entschieden|was wurde vereinbart",
        "right": r"rechte|berechtigung(?:en)?|ansprüche|berechtigt",
        "contact": r"kontakte?|kontaktdaten|ansprechpartner\w*|e-?mail-?adressen?|telefon(?:nummern?)?",
        "open": r"offene[nr]? (?:fragen?|punkte?)|ungeklärte\w*",
    },
    "fr": {
        "obligation": r"obligations?|devoirs?|engagements?|exigences?|doit|doivent|tenue?s? de",
        "deadline": r"échéances?|délais?|dates? (?:limites?|butoirs?)|d['’]ici quand|(?P<topic>préavis)|échéanciers?|jalons?",
        "date": r"dates?|calendrier|planning",
        "amount": r"montants?|prix|coûts?|tarifs?|frais|honoraires|combien|sommes?",
        "owner": r"responsables?|responsabilités?|qui fait quoi|en charge|attributions?",
        "action": r"actions?|tâches?|à faire|prochaines étapes|points? d['’]action",
        "definition": r"définitions?|définis?|signification|glossaire|définir",
        "step": r"étapes?|comment (?:faire|puis-je|peut-on)|marche à suivre|instructions?|procédures?",
        "risk": r"risques?|dangers?|menaces?|vulnérabilités?",
        "decision": r"décisions?|décidée?s?|résolutions?",
        "right": r"droits?",
        "contact": r"contacts?|coordonnées|adresses? e-?mail|téléphones?",
        "open": r"questions? ouvertes?|points? ouverts?|en suspens",
    },
    "es": {
        "obligation": r"obligaci(?:ón|ones)|deberes|compromisos?|requisitos?|debe|deben",
        "deadline": r"plazos?|fechas? (?:límites?|tope)|vencimientos?|para cuándo|hasta cuándo|(?P<topic>preaviso)|hitos?",
        "date": r"fechas?|calendario",
        "amount": r"importes?|precios?|costos?|costes?|tarifas?|cuánto|honorarios|montos?",
        "owner": r"responsables?|responsabilidad(?:es)?|encargad[oa]s?|quién hace qué",
        "action": r"acci(?:ón|ones)|tareas?|próximos pasos|pendientes|puntos de acción",
        "definition": r"definici(?:ón|ones)|definid[oa]s?|significado|glosario",
        "step": r"pasos?|cómo (?:puedo|se puede|hacer)|instrucciones|procedimientos?",
        "risk": r"riesgos?|peligros?|amenazas?|vulnerabilidad(?:es)?",
        "decision": r"decisi(?:ón|ones)|decidido|acuerdos|resoluci(?:ón|ones)",
        "right": r"derechos?",
        "contact": r"contactos?|teléfonos?|datos de contacto",
        "open": r"preguntas? abiertas?|cuestiones abiertas|puntos abiertos",
    },
    "it": {
        "obligation": r"obblig(?:o|hi)|dover[ei]|impegn[oi]|requisit[oi]|deve|devono",
        "deadline": r"scadenz[ae]|termin[ei](?: ultim[oi])?|entro quando|dat[ae] limite|(?P<topic>preavviso)|milestone",
        "date": r"dat[ae]|calendario",
        "amount": r"import[oi]|prezz[oi]|cost[oi]|tariff[ae]|quanto|onorari|canon[ei]",
        "owner": r"responsabil[ei]|responsabilità|incaricat[oi]|chi fa (?:che )?cosa",
        "action": r"azion[ei]|attività|compit[oi]|prossimi passi|da fare",
        "definition": r"definizion[ei]|definit[oi]|significato|glossario",
        "step": r"pass[oi]|passaggi|come (?:si fa|posso|fare)|istruzioni|procedur[ae]",
        "risk": r"risch[io]o?|rischi|pericol[oi]|minacc[ei]a?|vulnerabilità",
        "decision": r"decision[ei]|deciso|delibere?|deliberazioni",
        "right": r"diritt[oi]",
        "contact": r"contatt[oi]|telefono|recapiti",
        "open": r"domande aperte|questioni aperte|punti aperti",
    },
    "pt": {
        "obligation": r"obrigaç(?:ão|ões)|deveres|compromissos?|requisitos?|deve|devem",
        "deadline": r"prazos?|datas? limites?|vencimentos?|até quando|(?P<topic>aviso prévio)|marcos",
        "date": r"datas?|calendário|cronograma",
        "amount": r"valor(?:es)?|preços?|custos?|tarifas?|quanto|honorários|montantes?",
        "owner": r"responsáve(?:l|is)|responsabilidades?|encarregad[oa]s?|quem faz o quê",
        "action": r"aç(?:ão|ões)|tarefas?|próximos passos|pendências",
        "definition": r"definiç(?:ão|ões)|definid[oa]s?|significado|glossário",
        "step": r"passos?|como (?:posso|fazer|se faz)|instruções|procedimentos?",
        "risk": r"riscos?|perigos?|ameaças?",
        "decision": r"decis(?:ão|ões)|decidido|deliberaç(?:ão|ões)",
        "right": r"direitos?",
        "contact": r"contactos?|contatos?|telefones?",
        "open": r"perguntas? em aberto|questões em aberto|pontos em aberto",
    },
    "nl": {
        "obligation": r"(?P<topic>\w*?)verplichting(?:en)?|(?P<topic2>\w*?)plicht(?:en)?|eisen|vereisten|moet|moeten",
        "deadline": r"(?P<topic>\w*?)termijn(?:en)?|deadlines?|uiterste datums?|vervaldat(?:um|a)|tot wanneer|mijlpalen",
        "date": r"dat(?:um|ums|a)|planning|tijdschema",
        "amount": r"bedrag(?:en)?|(?P<topic>\w*?)prij(?:s|zen)|(?P<topic2>\w*?)kosten|tarie(?:f|ven)|hoeveel|vergoeding(?:en)?",
        "owner": r"verantwoordelijk(?:e[n]?|heid|heden)?|eigena(?:ar|ren)|wie doet wat",
        "action": r"actie(?:s|punten|punt)?|taken|taak|volgende stappen|to-?dos?",
        "definition": r"definities?|gedefinieerd|betekenis|begrippen",
        "step": r"stap(?:pen)?|hoe (?:kan|moet) (?:ik|je|men)|instructies?|werkwijze",
        "risk": r"risico['’]?s?|gevaren|gevaar|bedreigingen",
        "decision": r"beslissing(?:en)?|besluit(?:en)?|besloten",
        "right": r"rechten",
        "contact": r"contact(?:en|gegevens|personen|persoon)?|e-?mailadressen|telefoon(?:nummers?)?",
        "open": r"open (?:vragen|punten)",
    },
}

COLUMNS: Final[Mapping[str, str]] = {
    "owner": r"who|wer|qui|quién|chi|quem|wie|name|person|assigned|lead|pic",
    "deadline": r"by|when|until|till|bis|wann|quand|pour le|cuándo|entro|quando|wanneer|due by|eta|(?:target|delivery|end|completion|submission|closing|expiry|payment|review)(?: date)?|liefertermin"
    r"|lieferdatum|datum bis|date de livraison|fecha de entrega|data di consegna",
    "action": r"what|was|quoi|qué|che cosa|o que|wat|activity|deliverable|action required",
    "amount": r"total|net|gross|eur|usd|chf|gbp|netto|brutto|preis.*|price.*|prix.*|unit price|per month|monthly",
    "definition": r"term|begriff|terme|término|termine|termo|begrip|abbreviation",
}
"""Whole column headers that name a kind although in a sentence the word would not."""

CONCEPTS: Final = (
    """terminate terminated terminates termination cancel cancelled cancellation notice rescind 
    kündigung kündigen gekündigt kündigungsfrist kündbar kündigt vertragsende auflösung rücktritt résiliation résilier
    résilié préavis résolution rescisión rescindir resolución terminación cancelación recesso recedere disdetta risoluzione
    rescisão rescindir denúncia opzegging opzeggen opgezegd opzegtermijn preaviso preavviso beëindiging""",
    """pay paid payable payment payments invoice invoices invoicing remuneration zahlung zahlen zahlbar bezahlen rechnung
    vergütung zahlungsziel paiement payer payable facture règlement pago pagar factura pagamento pagare fattura fatura
    betaling betalen factuur""",
    """price prices pricing cost costs fee fees charge charges rate tariff preis preise kosten gebühr gebühren entgelt tarif
    prix coût coûts frais precio precios coste tarifa prezzo prezzi costo tariffa preço preços custo prijs prijzen kosten""",
    """deliver delivers delivered delivery deliveries shipment shipping lieferung liefern geliefert lieferzeit lieferfrist
    livraison livrer livré entrega entregar consegna consegnare entrega levering leveren levertijd""",
    """liability liable damages indemnity indemnify haftung haftet haften schadensersatz responsabilité responsabilidad
    responsabilità responsabilidade aansprakelijkheid aansprakelijk""",
    """warranty warranties guarantee guarantees gewährleistung garantie garantieren garantía garanzia garantia""",
    """confidential confidentiality secrecy secret nda vertraulich vertraulichkeit geheimhaltung verschwiegenheit
    confidentialité confidentiel confidencialidad confidencial riservatezza riservato confidencialidade geheimhouding
    vertrouwelijk""",
    """penalty penalties fine fines liquidated vertragsstrafe strafe pénalité pénalités penalización penalidad penale penali
    multa penalidade boete""",
    """storage store stored warehouse warehousing lager lagerung speicher stockage entrepôt almacenamiento almacén
    magazzino stoccaggio armazenamento armazém opslag""",
    """renew renews renewal renewed extend extension prolong verlängerung verlängern verlängert renouvellement reconduction
    renovación prórroga rinnovo proroga renovação prorrogação verlenging verlengd""",
    """duration term laufzeit vertragslaufzeit vertragsdauer dauer durée duración vigencia durata duração vigência looptijd
    duur""",
    """vacation holiday holidays leave urlaub urlaubstage ferien congé congés vacances vacaciones ferie férias vakantie""",
    """cap capped limit limited limitation maximum ceiling obergrenze höchstgrenze begrenzt begrenzung plafond plafonné límite limitada
    limite limitata massimale teto maximum beperkt""",
    """salary wage wages gehalt lohn salaire sueldo salario stipendio salário salaris loon""",
    """support maintenance helpdesk wartung betreuung assistance soporte mantenimiento assistenza manutenzione suporte
    ondersteuning onderhoud""",
    """privacy data-protection gdpr datenschutz dsgvo rgpd confidentialité privacidad privacidade""",
    """law jurisdiction court courts governing gerichtsstand recht juridiction tribunal jurisdicción foro giurisdizione
    jurisdição rechter""",
    """discount discounts rebate rabatt rabatte skonto remise descuento sconto desconto korting""",
    """employee employees staff worker mitarbeiter arbeitnehmer beschäftigte salarié employé empleado trabajador dipendente
    empregado werknemer""",
    """customer client buyer kunde auftraggeber käufer besteller acheteur cliente comprador acquirente klant koper""",
    """supplier vendor seller contractor provider lieferant auftragnehmer verkäufer anbieter fournisseur vendeur
    prestataire proveedor vendedor fornitore venditore fornecedor leverancier verkoper""",
    """install installs installed installation installing setup installieren installation installer instalar installare
    installeren""",
    """begin begins start starts commence commences commencement beginn beginnt startet début commence inicio inizio início
    begin""",
)
"""Words that mean nearly the same, so that "vendor" finds "supplier" and a German question an English clause."""
