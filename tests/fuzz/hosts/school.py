"""A school: a pupil who changes courses finds a course that is full."""

from __future__ import annotations

from dataclasses import dataclass, field

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World


@dataclass
class Course:
    """A course with so many seats."""

    title: str
    seats: int
    pupils: set[str] = field(default_factory=set)


def courses() -> dict[str, Course]:
    """Return the courses of a new year."""
    return {
        "MA-7": Course("Mathematics", 1),
        "EN-7": Course("English", 2),
        "BIO-7": Course("Biology", 1),
    }


PUPILS = frozenset({"amy", "ben", "cleo", "dan"})


class Agent(EngineMachine):
    """No course has more pupils than seats."""

    repro_folder = None

    def prepare(self) -> None:
        """Begin a new year."""
        self.courses = courses()

    def engine(self, journal: Journal) -> Engine:
        """Return the school's agent."""

        def course_of(name: str) -> Course:
            try:
                return self.courses[name]
            except KeyError:
                raise ToolError(f"unknown course {name!r}") from None

        @tool("courses.search", effect="read")
        def search(words: str = "") -> list[str]:
            """Search courses by words of their titles."""
            found = [name for name, course in self.courses.items() if words.lower() in course.title.lower()]
            return [f"{name}: {self.courses[name].title}" for name in found]

        @tool("courses.enrol", effect="idempotent")
        def enrol(course: str, pupil: str) -> str:
            """Put a pupil into a course that has a seat."""
            if pupil not in PUPILS:
                raise ToolError("no such pupil")
            chosen = course_of(course)
            if len(chosen.pupils | {pupil}) > chosen.seats:
                raise ToolError("the course is full")
            chosen.pupils.add(pupil)
            return f"{pupil} is in {chosen.title}"

        @tool("courses.leave", effect="idempotent")
        def leave(course: str, pupil: str) -> str:
            """Take a pupil out of a course."""
            course_of(course).pupils.discard(pupil)
            return "done"

        @tool("courses.change", effect="idempotent")
        def change(pupil: str, source: str, target: str) -> str:
            """Move a pupil from one course to another."""
            old, new = course_of(source), course_of(target)
            if pupil not in old.pupils:
                raise ToolError("the pupil is not in that course")
            old.pupils.remove(pupil)
            new.pupils.add(pupil)
            return "moved"

        return Engine("offline", [search, enrol, leave, change], journal)

    def check(self, world: World) -> None:
        """Count the seats."""
        for course in self.courses.values():
            assert len(course.pupils) <= course.seats, f"{course.title} has too few seats"
