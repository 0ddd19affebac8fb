"""Days off: a request is extended and then approved beyond what the employee has left."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

STAFF = json.loads(
    '[{"id": "E17", "name": "Ida Holm", "left": 24}, {"id": "E18", "name": "Raj Patel", "left": 11},'
    ' {"id": "E21", "name": "Mei Lin", "left": 16}]'
)

Days = Annotated[int, Field(ge=1, le=30, description="Whole working days.")]


class Agent(EngineMachine):
    """Nobody has more days off than there are."""

    repro_folder = None

    def prepare(self) -> None:
        """Begin a year."""
        self.left = {person["id"]: person["left"] for person in STAFF}
        self.requests: dict[str, dict[str, Any]] = {}

    def _request(self, number: str) -> dict[str, Any]:
        if number not in self.requests:
            raise ToolError("there is no such request")
        return self.requests[number]

    def engine(self, journal: Journal) -> Engine:
        """Return the agent of the personnel department."""

        @tool("staff.directory", effect="read")
        def directory() -> str:
            """Return everybody's number and name."""
            return "\n".join(f"{person['id']}  {person['name']}" for person in STAFF)

        @tool("leave.request")
        def request(employee: str, days: Days) -> dict[str, str]:
            """Ask for days off."""
            if employee not in self.left:
                raise ToolError("no such employee")
            if days > self.left[employee]:
                raise ToolError("so many days are not left")
            number = f"LR-{2026 + len(self.requests)}"
            self.requests[number] = {"employee": employee, "days": days, "approved": False}
            return {"request": number, "status": "open"}

        @tool("leave.extend")
        def extend(request: str, days: Days) -> dict[str, Any]:
            """Add days to an open request."""
            found = self._request(request)
            if found["approved"]:
                raise ToolError("it is approved already")
            if days > self.left[found["employee"]]:
                raise ToolError("so many days are not left")
            found["days"] += days
            return {"request": request, "days": found["days"]}

        @tool("leave.approve")
        def approve(request: str) -> str:
            """Approve an open request."""
            found = self._request(request)
            if found["approved"]:
                raise ToolError("it is approved already")
            found["approved"] = True
            self.left[found["employee"]] -= found["days"]
            return "approved"

        return Engine("offline", [directory, request, extend, approve], journal)

    def check(self, world: World) -> None:
        """Count the days."""
        assert min(self.left.values()) >= 0, "more days off than there are"
