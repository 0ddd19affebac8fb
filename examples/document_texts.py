"""
Texts of the example documents: one invented project, seen in a contract, minutes, prices and notes.

All companies, people, places and numbers are made up. The documents disagree in a few places on purpose
(see ``NOTES_HTML`` and ``MINUTES``), so that a reader has something to find out.
"""

CONTRACT_TITLE = "Services Agreement"
CONTRACT_SUBTITLE = "Berth Planning System for the Port of Sandmere"
CONTRACT_NUMBER = "TLS-HMS-2026-014"

PARTIES = (
    (
        "Supplier",
        "Tallow Lane Systems Ltd",
        (
            "a company registered in Carrick under number 40-118-226, with its office at 9 Tallow Lane, "
            "Carrick CK2 4TL, represented by its managing director, Ms Ingrid Vasko"
        ),
    ),
    (
        "Client",
        "Harrowgate Maritime Services Ltd",
        (
            "a company registered in Sandmere under number 77-031-905, with its office at Pier House, "
            "1 Quay Road, Sandmere SM1 1PH, represented by its chief operating officer, Mr Tomas Okereke"
        ),
    ),
)

RECITAL = (
    "The Client runs the container port of Sandmere and assigns about 1,900 ship calls a year to eleven "
    "berths, today with spreadsheets and telephone calls. The Supplier develops planning software for "
    "ports. The parties therefore agree as follows. This Agreement takes effect on 2 February 2026 (the "
    "Effective Date)."
)

DELIVERABLES = (
    ("No.", "Deliverable", "Delivery date", "Fee (EUR)"),
    ("D1", "Requirements specification", "27 February 2026", "32,000"),
    ("D2", "Working prototype for two berths", "17 April 2026", "58,000"),
    ("D3", "Test version for all eleven berths", "26 June 2026", "96,000"),
    ("D4", "Migration of the planning data of 2023 to 2026", "28 August 2026", "44,000"),
    ("D5", "Final version, training and handbook", "30 September 2026", "90,000"),
)

CLAUSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Subject and documents",
        (
            (
                "The Supplier shall develop, deliver and introduce a berth planning system (the System) and "
                "shall support it for twelve months after final acceptance."
            ),
            (
                "The specification D1, once accepted, becomes part of this Agreement. If this Agreement and "
                "the specification contradict each other, this Agreement prevails."
            ),
            (
                "Working days are Monday to Friday except the public holidays of Sandmere. Periods stated in "
                "days without this addition are calendar days."
            ),
        ),
    ),
    (
        "Obligations of the Supplier",
        (
            (
                "The Supplier shall present a project plan with milestones and named staff within 10 working "
                "days of the Effective Date."
            ),
            (
                "The Supplier shall appoint a project manager who is available on every working day between "
                "08:00 and 17:00. The project manager may be replaced only with the Client's written consent, "
                "which shall not be withheld without good reason."
            ),
            (
                "The Supplier shall report progress in writing on the last working day of each month. Each "
                "report shall state the work done, the work outstanding, the risks and any expected delay."
            ),
            (
                "As soon as the Supplier must expect that it will miss a date of clause 4, it shall inform the "
                "Client in writing within 3 working days and propose a remedy."
            ),
            (
                "The Supplier must report every security incident that concerns the Client's data within "
                "24 hours of becoming aware of it."
            ),
            (
                "The Supplier shall hold professional liability insurance of at least EUR 1,000,000 per event "
                "and shall present the certificate by 28 February 2026."
            ),
        ),
    ),
    (
        "Obligations of the Client",
        (
            (
                "The Client shall hand over the berth plans, tide tables and ship call records of the years "
                "2023 to 2025 by 15 April 2026, in a machine-readable form."
            ),
            (
                "The Client shall give the Supplier's staff access to the control room and to the test network "
                "within 5 working days of each request."
            ),
            (
                "The Client shall comment on every draft within 7 days of receiving it. A draft on which no "
                "comment arrives in time counts as approved."
            ),
            (
                "The Client shall name at least two planners who take part in tests for up to four hours a "
                "week. If the Client's contributions are late, the dates of clause 4 that depend on them move "
                "by the length of that delay."
            ),
        ),
    ),
    (
        "Delivery",
        (
            "The Supplier shall deliver the following by the dates stated:",
            (
                "A delivery counts as made in time when it reaches the Client's project office, in full and "
                "with its release notes, before 18:00 on the delivery date."
            ),
            (
                "If the Supplier exceeds a delivery date for reasons within its control, the Client may deduct "
                "1 per cent of the fee for that deliverable for each complete week of delay, but no more than "
                "8 per cent."
            ),
            "A delivery date may be changed only by a change note that both parties have signed.",
        ),
    ),
    (
        "Acceptance",
        (
            (
                "The Client shall test each deliverable within 15 working days of its delivery and shall then "
                "either accept it in writing or send a list of defects."
            ),
            (
                "The Supplier shall correct defects of class A (the System cannot be used) within 2 working "
                "days and defects of class B (an important function is impaired) within 10 days of the list."
            ),
            (
                "A deliverable counts as accepted if the Client neither accepts it nor sends a list of defects "
                "within the period of clause 5.1, and if it then remains silent for a further 5 working days "
                "after a written reminder."
            ),
            (
                "Final acceptance requires that the System has run for 20 consecutive days without a defect of "
                "class A."
            ),
        ),
    ),
    (
        "Fees and payment",
        (
            (
                "The fees for the deliverables amount to EUR 320,000 in total, excluding value added tax. The "
                "Supplier may invoice the fee for a deliverable once it has been accepted."
            ),
            (
                "The Client shall pay each undisputed invoice within 30 days of receiving it. The Client must "
                "notify the Supplier of any objection within 14 days, stating its reasons."
            ),
            (
                "Support costs EUR 4,500 a month and is invoiced quarterly in advance, for the first time with "
                "final acceptance."
            ),
            (
                "If the Client pays late, the Supplier may charge interest of 6 per cent a year. If an "
                "undisputed invoice is more than 45 days overdue, the Supplier may suspend its work after "
                "giving 10 days' written notice."
            ),
            (
                "Work outside the scope is paid by the hour according to the price list in force. It requires "
                "a written order before it begins."
            ),
        ),
    ),
    (
        "Rights and warranty",
        (
            (
                "On payment of the fee for a deliverable the Client receives the perpetual, non-exclusive "
                "right to use it for the operation of its ports. The Supplier shall deposit the source code "
                "with an escrow agent by 31 October 2026."
            ),
            (
                "The warranty period is 12 months from final acceptance. Within that period the Supplier shall "
                "correct defects free of charge. The Client shall report a defect within 20 days of finding it."
            ),
        ),
    ),
    (
        "Confidentiality and data",
        (
            (
                "Each party shall keep secret what it learns about the other party's business and shall use it "
                "for this project only. This obligation continues for 5 years after the end of this Agreement."
            ),
            (
                "It does not apply to information that is public, that was already known, or that must be "
                "disclosed by law. In the last case the other party shall be informed beforehand, where this "
                "is permitted."
            ),
            (
                "The Supplier shall keep the Client's data on servers within the country, shall encrypt them "
                "in transit and at rest, and shall delete test data within 60 days of final acceptance."
            ),
        ),
    ),
    (
        "Term and termination",
        (
            (
                "This Agreement runs until the end of the support period. It is then extended by one year at a "
                "time unless a party gives notice of at least 90 days before the end of the current period."
            ),
            (
                "The Client may terminate this Agreement at the end of any calendar month by giving 60 days' "
                "written notice. It shall then pay for accepted deliverables and for the work done until then."
            ),
            (
                "Either party may terminate with immediate effect if the other party commits a material breach "
                "and does not remedy it within 20 days of a written warning."
            ),
            (
                "Within 30 days of the end of this Agreement the Supplier shall return all documents and data "
                "of the Client in a common format and confirm in writing that no copies remain."
            ),
        ),
    ),
    (
        "Liability",
        (
            (
                "The liability of each party is limited to EUR 480,000 in total, which is one and a half times "
                "the fees of clause 6.1. The limit does not apply to wilful acts, gross negligence, injury to "
                "persons or breaches of clause 8."
            ),
            (
                "Neither party is liable for lost profit. Claims expire two years after the party concerned "
                "became aware of them."
            ),
            (
                "Neither party is liable for events beyond its control, provided that it informs the other "
                "party within 5 days and resumes its work as soon as it can."
            ),
        ),
    ),
    (
        "Final provisions",
        (
            "Changes to this Agreement require the written form. This also applies to this clause.",
            (
                "The parties shall first try to settle disputes between their managing directors within "
                "30 days. After that, the courts of Sandmere have jurisdiction."
            ),
            (
                "If a provision is invalid, the others remain in force. The parties shall replace the invalid "
                "provision by one that comes closest to its purpose."
            ),
        ),
    ),
)

SIGNATURES = (
    ("For the Supplier", "Carrick, 22 January 2026", "Ingrid Vasko", "Managing Director"),
    ("For the Client", "Sandmere, 26 January 2026", "Tomas Okereke", "Chief Operating Officer"),
)

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
