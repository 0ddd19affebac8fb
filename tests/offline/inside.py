"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.prompts.offline import SIGNATURE
from paor.prompts.offline import corpus as corpus_module
from paor.prompts.offline.corpus import Source
from paor.prompts.offline.kinds import kinds_of
from paor.prompts.offline.request import parse
from paor.prompts.offline.units import Unit, fold
from paor.prompts.offline.writer import Written, escape, write
from paor.prompts.parsing.plans import read_plan
from paor.states.records.plans import Plan
