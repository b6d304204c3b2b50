"""The layers of configuration below a run's own: the user's file, then a trusted project's."""

from dataclasses import dataclass
from pathlib import Path

from engine.config import decode_config_file
from engine.core.errors import UsageError
from engine.core.quote import quote_value
from engine.core.spec import RunSpec
from engine.records.config import ConfigLayer
from engine.system.files import is_there, read_input
from engine.system.links import leads_out
from pinata.work.trust import Project

USER_FILE = "pinata.json"
PROJECT_FILE = Path(".pi") / "pinata.json"
_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the files say.

    Attributes:
        layers: the weakest first.
        project_setup: the script that the project's file names to prepare worktrees, and that file.
        notices: sentences about what was left out.
    """

    layers: tuple[ConfigLayer, ...] = ()
    project_setup: tuple[str, Path] | None = None
    notices: tuple[str, ...] = ()

    def notices_on(self, spec: RunSpec) -> tuple[str, ...]:
        """Return what the caller of the run should know before its first agent starts.

        A script of the project runs with the rights of whoever started the run, so it is shown.
        """
        if self.project_setup is None or not spec.has_writers:
            return self.notices
        script, path = self.project_setup
        if spec.config.setup != script:
            return self.notices
        shown = f"{path} has each writer's worktree prepared with {quote_value(script)}"
        return (*self.notices, shown)


def read_configuration(agent_dir: Path | None, project: Project | None) -> Configuration:
    """Return the layers that lie in files; blocks. A file that is not there says nothing.

    Args:
        agent_dir: the Pi agent directory, which holds the user's file.
        project: the checkout that a run is for.

    Raises:
        UsageError: a file cannot be read, or says what cannot be meant; names it and the key.
    """
    layers = []
    if agent_dir is not None:
        layers += _layer(agent_dir / USER_FILE)
    if project is None:
        return Configuration(tuple(layers))
    path = project.root / PROJECT_FILE
    if not project.is_trusted:
        notices = (project.ignored(path),) if is_there(path) else ()
        return Configuration(tuple(layers), notices=notices)
    own = _layer(path, within=project.root)
    scripts = [layer.values.get("setup") for layer in own]
    setup = next(((script, path) for script in scripts if isinstance(script, str)), None)
    return Configuration((*layers, *own), setup)


def _layer(path: Path, within: Path | None = None) -> list[ConfigLayer]:
    """Return the layer of a file, or nothing when there is none."""
    if not is_there(path):
        return []
    if within is not None and leads_out(path, within.resolve()):
        raise UsageError(f"{path} leads out of the repository; put the file itself there")
    return [decode_config_file(read_input(path, _LIMIT_BYTES), str(path))]
