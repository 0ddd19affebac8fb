"""
The languages that the writing engine reads, their most frequent words, and how one is recognised.

Function words make up about half of running text and hardly any of them is shared by two languages, so counting
them over the beginning of a text tells its language cheaply. They also never say what a text is about: search and
centrality leave them out.

Source: the head of the frequency lists behind the snowball project's stop lists, shortened by hand.
"""

import re
from collections.abc import Mapping
from typing import Final

ALGORITHMS: Final[Mapping[str, str]] = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
}
"""Language code to the name of its snowball stemmer. The order decides a tie in recognition."""

_WORDS: Final[Mapping[str, str]] = {
    "en": """a about above after again all also am an and any are as at be because been before being below between both
        but by can could did do does doing down during each either few for from further had has have having he her here
        hers him his how however i if in into is it its itself just may me might more most must my neither no nor not
        now of off on once one only or other our out over own per same shall she should so some such than that the
        their theirs them then there these they this those through to too under until up upon us very was we were what
        when where whether which while who whom whose why will with within without would you your""",
    "de": """aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da damit
        dann das dass dem den denn der deren des dessen die dies diese diesem diesen dieser dieses doch dort du durch
        ein eine einem einen einer eines er es etwa euch für gegen habe haben hat hatte hatten hier ich ihm ihn ihnen
        ihr ihre ihrem ihren ihrer im in ins ist jede jedem jeden jeder jedes jedoch kann kein keine keinem keinen
        keiner können man mehr mein meine mit muss müssen nach nicht noch nur ob oder ohne sein seine seinem seinen
        seiner seit sich sie sind so sofern soll sollen soweit sowie über um und uns unser unsere unter vom von vor war
        waren was weil welche welcher welches wenn wer werden wie wir wird wo wurde wurden zu zum zur zwischen""",
    "fr": """à afin ai ainsi après au aucun aucune aussi autre autres aux avant avec avoir car ce ceci cela celle celles
        celui ces cet cette ceux chaque chez ci comme d dans de depuis des donc dont du elle elles en entre est et été
        être eu eux fait il ils j je jusque l la le les leur leurs lors lui m mais me même mes moi mon n ne ni nos
        notre nous on ont ou où par pas pendant peut plus pour qu quand que quel quelle quelles quels qui quoi s sa
        sans se selon sera ses si son sont sous sur t ta tant te tel telle tes toi ton tous tout toute toutes très tu
        un une vers vos votre vous y""",
    "es": """a al algo algunas algunos ante antes así aun aunque bien cada como con contra cual cuales cuál cuáles
        cuando cuándo de del desde donde durante e el él ella ellas ellos en entre era es esa ese eso esta está
        estas este esto estos están fue ha han hasta hay la las le les lo los mas más me mi mientras muy ni no nos
        nosotros o os otra otras otro otros para pero por porque pues que qué quien quién se sea según ser si sí sido
        sin sobre son su sus también tan tanto te tiene toda todas todo todos tras tu un una unas uno unos usted
        ustedes y ya yo""",
    "it": """a ad agli ai al alla alle allo altri altro anche avere c che chi ci ciò come con contro cosa cui da dagli
        dai dal dalla dalle de degli dei del dell della delle dello di dopo dove e è ed era essere fra gli ha hanno
        i il in io l la le lei li lo loro lui ma mentre mi nei nel nella nelle nello no noi non nostra nostro o ogni
        oltre per perché più poi prima quale quali quando quanto quella quelle quelli quello questa queste questi
        questo qui se sei senza si sia sono sopra sotto stata stato su sua sue sugli sui sul sulla suo suoi tra tu
        tutte tutti tutto un una uno vi voi""",
    "pt": """a à ao aos aquela aquele as às até cada com como da das de dela dele deles depois do dos e é ela elas ele
        eles em entre era essa esse esta está este estes eu foi foram há isso isto já lhe lhes mais mas me mesmo meu
        minha muito na não nas nem no nos nós nossa nosso num numa o os ou outra outro para pela pelas pelo pelos por
        porque qual quais quando que quem são se sem ser será seu seus só sob sobre sua suas também tem têm um uma umas
        uns você vocês""",
    "nl": """aan al alle alles als andere ben bij binnen dan dat de deze die dit doch doen door dus een eens elk elke en
        er ge geen haar had heb hebben heeft hem het hier hij hoe hun ieder iets ik in indien is ja je kan kon kunnen
        maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons onze ook op over reeds te
        tegen toch toe tot tussen u uit uw van veel voor want waren was wat we welke wel werd wezen wie wij wil worden
        wordt zal ze zelf zich zij zijn zo zonder zou""",
}

STOP_WORDS: Final[Mapping[str, frozenset[str]]] = {
    code: frozenset(words.split()) for code, words in _WORDS.items()
}
"""Function words of each language, lower case."""

_SAMPLE_CHARS: Final = 20_000
_LETTERS = re.compile(r"[^\W\d_]+")


def detect(text: str, *, default: str = "en") -> str:
    """
    Return the language in which *text* is most likely written.

    Args:
        text: Any text; its first 20,000 characters are looked at.
        default: The answer where there are no function words, as in a price table, and where several languages tie.

    Returns:
        A key of ``ALGORITHMS``, or *default* as it was given.
    """
    words = _LETTERS.findall(text[:_SAMPLE_CHARS].lower())
    counts: dict[str, int] = dict.fromkeys(ALGORITHMS, 0)
    for word in words:
        for code, stop in STOP_WORDS.items():
            if word in stop:
                counts[code] += 1
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    best = [code for code, count in ranked if count == ranked[0][1]]
    return default if ranked[0][1] == 0 or default in best else best[0]


def known(language: str) -> str:
    """Return the two-letter code of *language* ("de-CH" is "de"), or "en" where it is none of ours."""
    code = language.strip().lower()[:2]
    return code if code in ALGORITHMS else "en"
