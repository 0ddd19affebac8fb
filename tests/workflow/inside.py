"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.fsm.lifecycle import subrun_runner as subrun_runner_module
from paor.fsm.workflow.expressions.evaluator import (
    TEMPLATE_DEPTH_MAX,
    VALUES_MAX,
    ExpressionError,
    evaluate,
    rendered,
)
from paor.fsm.workflow.expressions.functions import CHARS_MAX, NUMBER_MAX
from paor.fsm.workflow.expressions.nodes import DEPTH_MAX, NODES_MAX, TEXT_MAX
from paor.fsm.workflow.navigation import Cursor, Flow, StepCall
from paor.fsm.workflow.reader import (
    WorkflowError,
    default_workflow,
    default_workflow_text,
    find_task,
    workflow_of_text,
)
from paor.fsm.workflow.source import read_source
from paor.states.records.plans import Plan, PlanResult
from paor.states.records.workflow import (
    EXEC_ACTION,
    EXECUTOR_INPUTS,
    EXECUTOR_OUTPUTS,
    PLAN_ACTION,
    PLANNER_INPUTS,
    PLANNER_OUTPUTS,
)
from paor.states.run.reasons import REASONS
from paor.states.run.spec import ToolSpec
from paor.tools.catalog import Catalog
