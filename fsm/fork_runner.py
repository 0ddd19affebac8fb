"""Forking, as an engine does it: a run taken hold of at a row of another one, to be driven like any run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..prompts.model import Model
from ..states.errors import UsageError
from ..states.limits import Limits
from ..states.phase import EXECUTING
from ..states.policy import Policy
from ..states.spec import Spec
from .accepting import refusal
from .drive import Drive
from .forking import ForkPoint, amended, answer_at, fork_point
from .intake import check_priced, model_of
from .kit import Kit
from .loop import Steps, steps
from .payloads import JSON, Stager
from .restore import restaged
from .runner import Runner, Start


class ForkRunner(Runner):
    """A runner that also starts runs from the rows of other ones."""

    @abstractmethod
    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* as this engine would write it now."""

    def _forked(
        self,
        run_id: str,
        at_seq: int,
        *,
        answer: Any = None,
        outcome: str | None = None,
        result: Any = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        prompt_template: str | None = None,
        current: bool = False,
    ) -> Start:
        """Check everything that a fork takes; what is returned creates it when the first event is asked for."""
        if not isinstance(limits, Limits | Mapping | None) or not isinstance(policy, Policy | None):
            raise UsageError("limits must be a Limits value or a mapping of limits, policy a Policy value")
        if not isinstance(connections, Mapping | None):
            raise UsageError("connections must be a mapping of labels to values")
        chosen = model_of(model) if model is not None else self.model
        point = fork_point(self.journal, run_id, at_seq)
        parent, own = point.run.spec, self._ids.run_id()
        changes = self.changes(point.run)
        if not current and any(change.relevant for change in changes):
            raise refusal(point.run.run_id, changes, "current, --current")
        reply = answer_at(point.run, answer, outcome, result)
        spec = amended(
            parent,
            own,
            stored=self.journal.spec(point.run.run_id),
            limits=limits,
            policy=policy,
            prompt_template=prompt_template,
            model=chosen.name if model is not None else None,
            now=self.current_spec(parent) if current else None,
        )
        check_priced(chosen, (spec or parent).limits)

        def start() -> tuple[Drive, Steps]:
            drive = self._branched(point, own, spec)
            drive.model = chosen
            drive.connections.update(connections or {})
            return drive, steps(drive) if reply is None else self._answered(drive, reply)

        return start

    def _branched(self, point: ForkPoint, run_id: str, spec: Spec | None) -> Drive:
        """Create a fork and take hold of it; with *spec* it has its own, without its parent's."""
        parent = point.run
        if spec is None:
            place, payloads = point.spec_place, []
        else:
            stager = Stager(point.next_payload, self._ids.salt)
            place = stager.stage(spec.model_dump_json(), JSON)
            payloads = stager.taken()
        number, root, fence = self.journal.create(
            run_id,
            (spec or parent.spec).model_copy(update={"workflow_id": run_id}),
            created_at=self._clock.now_us(),
            place=place,
            payloads=payloads,
            documents=(),
            parent=(parent.run_id, point.seq),
            before=point.head,
        )
        try:
            run = replace(parent, run_id=run_id, number=number, spec=self.journal.spec(run_id))
            stager = restaged(self.journal, number, self._ids.salt)
            drive = self._drive(run, root, fence, Kit(run.spec), self.model, stager, {})
        except BaseException:
            self.journal.leases.release(number, fence)
            raise
        drive.resumed = run.state == EXECUTING
        return drive
