"""From what a caller asks for to the run that it means, with what files say about all runs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agents.definition import Definition, Source, decode_definition
from engine.core.spec import RunSpec
from engine.records.job import JobRequest, run_spec
from engine.records.run import RunRecordV1
from engine.system.case import folds_case
from pinata.work.configuration import read_configuration
from pinata.work.context import Context
from pinata.work.definitions import changed_since, read_roster
from pinata.work.trust import judge_project


def plan_run(
    context: Context, request: JobRequest, root: Path
) -> tuple[RunSpec, Mapping[str, Definition]]:
    """Return the run that is asked for and the definitions that its tasks can name; blocks.

    What files say is settled here, once: whoever takes the run over later reads none of them.

    Args:
        context: the caller's.
        request: what is asked for.
        root: the top folder of the checkout that the run is for.

    Raises:
        UsageError: the request, or a file of configuration, cannot be meant.
    """
    project = judge_project(root, context.agent_dir, stated=context.project_trust)
    roster = read_roster(context.agent_dir, project)
    configuration = read_configuration(context.agent_dir, project)
    spec = run_spec(
        request,
        roster.kinds,
        roster.reasons | {each.name: each.fault for each in roster.unavailable},
        layers=configuration.layers,
        fold_case=folds_case(root, ".git"),
    )
    notices = (
        *configuration.notices_on(spec),
        *roster.notices_on(task.agent for task in spec.tasks),
        *spec.notices,
    )
    return replace(spec, notices=notices), roster.definitions


def changed_definitions(context: Context, record: RunRecordV1) -> list[str]:
    """Return a notice for each definition whose files say otherwise than the run goes by; blocks.

    Those of a project that is not trusted now cannot be compared.

    Raises:
        CorruptionError: what is stored of the run is damaged.
    """
    root = Path(record.root)
    project = judge_project(root, context.agent_dir, stated=context.project_trust)
    roster = read_roster(context.agent_dir, project)
    stored = [decode_definition(one) for one in record.definitions.values()]
    comparable = [one for one in stored if project.is_trusted or one.source is not Source.PROJECT]
    return changed_since(comparable, roster.definitions)
