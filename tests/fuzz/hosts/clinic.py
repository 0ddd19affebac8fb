"""A clinic: two drugs that must not be taken together are prescribed, one after the other."""

from __future__ import annotations

from typing import Any

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

FORMULARY = """
name;most_mg;not_with
warfarin;10;
aspirin;500;warfarin
ibuprofen;800;warfarin,lithium
lithium;900;
metformin;1000;
amoxicillin;500;
"""

PATIENTS = {4711: "Berta Krug", 4712: "Samir Aziz", 5003: "Jo Lind"}


def formulary() -> dict[str, tuple[int, frozenset[str]]]:
    """Return drugs by name: the largest dose, and what they are not taken with."""
    lines = [line.split(";") for line in FORMULARY.strip().splitlines()[1:]]
    return {name: (int(most), frozenset(filter(None, other.split(",")))) for name, most, other in lines}


class Agent(EngineMachine):
    """No patient has two drugs that do not go together."""

    repro_folder = None

    def prepare(self) -> None:
        """Nobody takes anything yet."""
        self.taken: dict[int, list[str]] = {patient: [] for patient in PATIENTS}

    def engine(self, journal: Journal) -> Engine:
        """Return the clinic's agent."""
        drugs = formulary()

        def known(patient: int) -> list[str]:
            if patient not in self.taken:
                raise ToolError(f"there is no patient {patient}")
            return self.taken[patient]

        @tool("patients.find", effect="read")
        def find(name: str) -> list[dict[str, Any]]:
            """Find patients by a part of their names."""
            return [{"id": id, "name": full} for id, full in PATIENTS.items() if name.lower() in full.lower()]

        @tool("medication.list", effect="read")
        def medication(patient: int) -> list[str]:
            """List what a patient takes."""
            return known(patient)

        @tool("medication.prescribe")
        def prescribe(patient: int, drug: str, milligrams: int) -> str:
            """Prescribe a drug of the formulary, unless it does not go with what the patient takes."""
            takes = known(patient)
            if drug not in drugs:
                raise ToolError("this drug is not in the formulary")
            most, not_with = drugs[drug]
            if not 0 < milligrams <= most:
                raise ToolError("this dose is not possible")
            if not_with & set(takes):
                raise ToolError("this does not go with what the patient takes")
            takes.append(drug)
            return "prescribed"

        @tool("medication.stop")
        def stop(patient: int, drug: str) -> str:
            """End a prescription."""
            takes = known(patient)
            if drug not in takes:
                raise ToolError("the patient does not take it")
            takes.remove(drug)
            return "stopped"

        return Engine("offline", [find, medication, prescribe, stop], journal)

    def check(self, world: World) -> None:
        """Hold the prescriptions to the formulary, in both directions."""
        for takes in self.taken.values():
            for name in takes:
                assert not formulary()[name][1] & set(takes), "two drugs that must not meet"
