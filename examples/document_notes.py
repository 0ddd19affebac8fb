"""
Texts of the minutes, the price list and the notes: what happened after the contract was signed.

They disagree with the contract in a few places on purpose, so that a reader has something to find out:
change notes moved two dates, and the notes remember the limit of liability wrongly.
"""

MINUTES_TITLE = "Minutes of the Steering Meeting No. 4"
MINUTES_FACTS = (
    ("Project", "Berth Planning System, contract TLS-HMS-2026-014"),
    ("Date and place", "Thursday, 14 May 2026, 10:00 to 11:40, Pier House, Sandmere"),
    (
        "Present",
        "Tomas Okereke (chair), Lena Duarte, Piet Hallam (Client); Ingrid Vasko, Omar Rees (Supplier)",
    ),
    ("Apologies", "Ruth Castellan (Client, finance)"),
    ("Minutes taken by", "Piet Hallam"),
)
MINUTES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Status of the deliverables",
        (
            (
                "D1 was accepted on 20 March 2026. D2 was delivered on 17 April 2026, and the Client accepted it "
                "on 8 May 2026, within the 15 working days of clause 5.1."
            ),
            (
                "Omar Rees reported that the work on D3 is about six days behind plan. The delivery date of "
                "26 June 2026 is still realistic if the tide tables are complete by 22 May 2026."
            ),
        ),
    ),
    (
        "Late data from the Client",
        (
            (
                "Under clause 3.1 the Client had to hand over its records by 15 April 2026. The ship call records "
                "arrived on 29 April 2026, and the tide tables for 2024 are still missing."
            ),
            (
                "The Supplier pointed out that clause 3.4 moves the dependent dates. Both sides agreed that only "
                "D4 depends on these records. The Supplier will propose a new date for D4 in a change note."
            ),
        ),
    ),
    (
        "Invoices",
        (
            (
                "The invoice for D1 (EUR 32,000) was received on 24 March 2026 and paid on 21 April 2026. The "
                "invoice for D2 (EUR 58,000) was received on 11 May 2026, so it is due on 10 June 2026."
            ),
            (
                "Ruth Castellan had asked in writing whether the travel costs of EUR 1,840 are part of the fee. "
                "The meeting decided that they are not and that they need an order under clause 6.5."
            ),
        ),
    ),
    (
        "Risks",
        (
            (
                "The insurance certificate of clause 2.6 has still not been presented. It was due on "
                "28 February 2026. Ingrid Vasko promised it by the end of next week."
            ),
            (
                "Lena Duarte leaves the company on 31 July 2026. The Client must name a second planner for the "
                "tests before then, as clause 3.4 asks for at least two."
            ),
        ),
    ),
)
ACTIONS = (
    ("No.", "Action", "Owner", "Due"),
    ("1", "Hand over the tide tables for 2024", "Piet Hallam", "22 May 2026"),
    ("2", "Present the insurance certificate", "Ingrid Vasko", "22 May 2026"),
    ("3", "Draft change note CN-02 with a new date for D4", "Omar Rees", "29 May 2026"),
    ("4", "Order the travel costs or refuse them in writing", "Ruth Castellan", "5 June 2026"),
    ("5", "Pay the invoice for D2", "Ruth Castellan", "10 June 2026"),
    ("6", "Name a second planner for the tests", "Tomas Okereke", "30 June 2026"),
)
MINUTES_END = (
    "The next steering meeting takes place on Thursday, 18 June 2026, at 10:00 in Carrick. Objections to "
    "these minutes must reach Piet Hallam within 7 days."
)

PRICES = '''\
code,description,unit,price_eur,valid_from,remark
S-101,"Consultant, junior",hour,84.00,2026-01-01,
S-102,"Consultant, senior",hour,118.00,2026-01-01,
S-103,"Architect",hour,142.00,2026-01-01,
S-104,"Project manager",hour,126.00,2026-01-01,
S-105,"Test engineer",hour,92.00,2026-01-01,
S-106,"Trainer",day,980.00,2026-01-01,"up to 12 people"
S-107,"Data engineer",hour,108.00,2026-01-01,"also for migrations"
S-108,"Security review",piece,6400.00,2026-03-01,"report included"
T-201,"Travel, within 50 km",trip,65.00,2026-01-01,"flat rate"
T-202,"Travel, beyond 50 km",km,0.62,2026-01-01,
T-203,"Overnight stay",night,135.00,2026-01-01,"at cost if higher, with receipt"
L-301,"Berth planner licence",seat/month,48.00,2026-02-01,"from 25 seats: 41.00"
L-302,"Viewer licence",seat/month,9.50,2026-02-01,
L-303,"Interface to port radar",month,310.00,2026-02-01,
L-304,"Interface to tide service",month,140.00,2026-02-01,"data fees not included"
L-305,"Mobile app",seat/month,6.00,2026-06-01,"available from June 2026"
H-401,"Hosting, small",month,420.00,2026-01-01,"99.5 % availability"
H-402,"Hosting, medium",month,790.00,2026-01-01,"99.7 % availability"
H-403,"Hosting, large",month,1450.00,2026-01-01,"99.9 % availability"
H-404,"Backup, second site",month,260.00,2026-01-01,
H-405,"Restore test",piece,900.00,2026-01-01,"once a year recommended"
P-501,"Support, office hours",month,4500.00,2026-01-01,"as agreed in clause 6.3"
P-502,"Support, around the clock",month,7900.00,2026-01-01,
P-503,"Emergency call-out",piece,650.00,2026-01-01,"per call, first 2 hours included"
P-504,"Emergency work, further hour",hour,195.00,2026-01-01,
D-601,"Handbook, printed",copy,38.00,2026-04-01,
D-602,"Wall chart ""Berths at a glance""",piece,24.50,2026-04-01,"A1, laminated"
D-603,"Training folder",copy,19.00,2026-04-01,
'''

NOTES_HTML = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Berth Planning System: working notes</title>
<style>body { font-family: sans-serif; } .menu { float: left; }</style>
<script>window.tracker = { page: "berth-notes", visits: 214 };</script>
</head>
<body>
<nav class="menu">
<ul><li><a href="/">Intranet</a></li><li><a href="/projects">Projects</a></li><li><a href="/canteen">Canteen</a></li></ul>
</nav>
<main>
<h1>Berth Planning System: working notes</h1>
<p>Last edited on 9 June 2026 by Piet Hallam. These notes are for our own staff. The signed
<a href="/files/contract.pdf">contract</a> TLS-HMS-2026-014 and the signed change notes prevail.</p>

<h2>Changed dates</h2>
<p>Change note CN-01 (2 March 2026) moved the source code deposit from 31 October 2026 to
<b>15 December 2026</b>. Change note CN-02 (3 June 2026) moved deliverable D4 from 28 August 2026 to
<b>18 September 2026</b>, because our own records arrived late. D5 stays at 30 September 2026.</p>

<h2>Who to ask</h2>
<table>
<tr><th>Topic</th><th>Person</th><th>Room</th></tr>
<tr><td>Acceptance tests</td><td>Lena Duarte (until 31 July 2026)</td><td>B 204</td></tr>
<tr><td>Acceptance tests</td><td>Jonas Adeyemi (from 1 July 2026)</td><td>B 206</td></tr>
<tr><td>Invoices</td><td>Ruth Castellan</td><td>A 011</td></tr>
</table>

<h2>Things that are easily missed</h2>
<ul>
<li>We have 15 working days to test each delivery. If we stay silent after the reminder as well, it
counts as accepted.</li>
<li>Objections to an invoice must be sent within 14 days. Finance pays on the last Friday of a month,
so an invoice that arrives late in a month can miss the 30 days.</li>
<li>The Supplier's liability is limited to EUR 400,000 in total. <i>(From memory, please check.)</i></li>
<li>Defects of class A must be corrected within 2 working days, so report them by telephone first:
extension 4417, until 17:00.</li>
</ul>

<h2>Open questions</h2>
<ol>
<li>Does the training for the night shift count as outside the scope? A trainer costs EUR 980 a day.</li>
<li>Who checks that test data are deleted within 60 days of final acceptance?</li>
<li>The insurance certificate arrived on 26 May 2026, almost three months late. Do we still insist on
a written explanation?</li>
</ol>
</main>
<footer><p>Harrowgate Maritime Services Ltd, Intranet, cookie settings, print this page</p></footer>
<script>document.querySelector("footer").dataset.ready = "1";</script>
</body>
</html>
"""
