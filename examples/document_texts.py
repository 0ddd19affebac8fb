"""Text of the example contract. All companies, people, places and numbers are made up."""

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
