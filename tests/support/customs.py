"""What a user and a project say about agents and settings, laid where pinata looks for it."""

import json
from pathlib import Path

from tests.support.projects import Project

READER = "---\ndescription: Looks back.\nkind: reader\n---\nLook back.\n"
WRITER = "---\ndescription: Writes prose.\nkind: writer\n---\nWrite.\n"
REVIEWER = "---\ndescription: Judges prose.\nkind: reviewer\n---\nJudge.\n"


def agent_dir(project: Project) -> Path:
    """Return the user's Pi agent directory, made if need be."""
    folder = project.repo.home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def trust(project: Project) -> None:
    """Let the user have trusted the project in Pi."""
    decisions = {str(project.repo.root.resolve()): True}
    (agent_dir(project) / "trust.json").write_text(json.dumps(decisions))


def define(project: Project, name: str, text: str) -> Path:
    """Put a definition into the project."""
    return project.repo.write(f".pi/agents/{name}.md", text)


def define_for_user(project: Project, name: str, text: str) -> Path:
    """Put a definition into the user's folder."""
    folder = agent_dir(project) / "agents"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text)
    return path
