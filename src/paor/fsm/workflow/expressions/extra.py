"""The extra ``workflow``: the parsers of workflow files, lark for expressions and PyYAML for YAML."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec  # pure: whether the extra is there decides nothing

from ....states.base.errors import MissingExtra


@cache
def need_workflow_extra() -> None:
    """
    Check that the parsers of workflow files are installed, without importing them.

    Whoever starts, resumes or replays a run with a workflow calls this first: found missing later, they would end the
    run as one whose workflow cannot be followed, and that would stand in its journal.

    Raises:
        MissingExtra: One of them is not.
    """
    modules = (("lark", "lark"), ("pyyaml", "yaml"))
    absent = [name for name, module in modules if find_spec(module) is None]  # pure: as above
    if absent:
        raise MissingExtra(f'workflow files need {", ".join(absent)}: pip install "paor[workflow]"')
