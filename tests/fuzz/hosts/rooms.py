"""Meeting rooms: a meeting around another one is taken for one beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

Hour = Annotated[int, Field(ge=8, le=18)]


class Agent(EngineMachine):
    """No room has two meetings at a time."""

    repro_folder = None

    def prepare(self) -> None:
        """Begin with empty rooms."""
        self.meetings: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self.seats = {"Oak": 4, "Birch": 12}

    def engine(self, journal: Journal) -> Engine:
        """Return the office's agent."""

        @tool("rooms.list", effect="read")
        def list_rooms(seats: int = 1) -> list[dict[str, Any]]:
            """List rooms with so many seats."""
            return [{"name": name, "seats": most} for name, most in self.seats.items() if most >= seats]

        @tool("rooms.book", effect="idempotent")
        def book(
            room: str,
            day: Annotated[str, Field(json_schema_extra={"format": "date"})],
            start: Hour,
            end: Hour,
        ) -> str:
            """Book a room from one hour to another."""
            if room not in self.seats:
                raise ToolError("there is no such room")
            if start >= end:
                raise ToolError("a meeting ends after its beginning")
            booked = self.meetings.setdefault((room, day), [])
            if any(begun <= start < ended or begun < end <= ended for begun, ended in booked):
                raise ToolError("the room is taken")
            booked.append((start, end))
            return "booked"

        @tool("mail.invite")
        def invite(to: list[str], subject: str) -> str:
            """Invite people to a meeting."""
            return f"invited {len(to)}"

        return Engine("offline", [list_rooms, book, invite], journal)

    def check(self, world: World) -> None:
        """Hold every day to one meeting at a time."""
        for booked in self.meetings.values():
            order = sorted(booked)
            assert all(one[1] <= other[0] for one, other in pairwise(order)), "two at a time"
