"""What may stand on the command line."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

import pinata
from engine.core.errors import UsageError


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}; see {self.prog} --help")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; `command` names what to do.

    Raises:
        UsageError: they cannot be meant.
    """
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pinata",
        description="Run graphs of coding agents; let only reviewed changes into a checkout.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"pinata {pinata.__version__}",
        help="print the version and exit",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    run = _command(commands, "run", "run the job in a JSON file and wait for its end")
    run.add_argument("job", help="the file; its `cwd` starts from its folder, a script from that")
    run.add_argument("--mode", choices=("lean", "observe"), help="which events to keep")
    _trusting(run)

    resume = _command(commands, "resume", "finish or close a run whose process died")
    resume.add_argument("run", help="its id, or the beginning of one")

    agents = _command(commands, "agents", "show which agents tasks can name")
    agents.add_argument("name", nargs="?", help="all about this one")
    _trusting(agents)

    status = _command(commands, "status", "tell how a run stands")
    status.add_argument("run", nargs="?", help="its id, or the beginning; the latest without")
    status.add_argument("task", nargs="?", help="one task of it")
    status.add_argument("--detail", choices=("summary", "result", "transcript"))
    status.add_argument("--offset", type=int, help="the first task to show")
    status.add_argument("--limit", type=int, help="the most tasks to show, 1 to 64")

    _command(commands, "runs", "list the runs of this repository, the latest first")

    changes = _command(commands, "changes", "hand a run's approved changes over, as patches")
    changes.add_argument("run", help="its id, or the beginning of one")

    verify = _command(commands, "verify", "check the checkout of a run without changing it")
    verify.add_argument("run", help="its id, or the beginning of one")
    verify.add_argument("--checks", metavar="FILE", help="a JSON array of checks for this time")
    verify.add_argument("--no-checks", metavar="WHY", help="run none, for this reason")

    integrate = _command(commands, "integrate", "bring a run's approved change into the checkout")
    integrate.add_argument("run", help="its id, or the beginning of one")

    rollback = _command(commands, "rollback", "take an integration back")
    rollback.add_argument("run", help="its id, or the beginning of one")
    rollback.add_argument("--confirm", action="store_true", help="it is meant")

    logs = _command(commands, "logs", "print a run's event log")
    logs.add_argument("run", nargs="?", help="its id, or the beginning; the latest without")
    logs.add_argument("task", nargs="?", help="only what concerns this task")
    logs.add_argument("--follow", action="store_true", help="go on until the run has settled")

    _command(commands, "doctor", "look whether pinata can work here")
    _command(commands, "tools", "describe the tools")
    return parser


def _trusting(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trust-project",
        action="store_true",
        help="heed the definitions and the configuration in the project's .pi folder",
    )


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, help_: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help_, description=help_, allow_abbrev=False)
    command.add_argument("--json", action="store_true", help="print JSON")
    return command
