"""What may stand on the command line."""

import argparse
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

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


class _Once(argparse.Action):
    """A flag that may stand once: twice, something else may have been meant."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002 - argparse names it
        super().__init__(option_strings, dest, nargs=0, default=False, help=help)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Set the flag.

        Raises:
            UsageError: it is set already.
        """
        if getattr(namespace, self.dest):
            raise UsageError(f"{option_string} stands twice: give it once")
        setattr(namespace, self.dest, True)


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001 - argparse has no public name for it


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; `command` names what to do.

    Raises:
        UsageError: they cannot be meant.
    """
    given, unknown = _parser().parse_known_args(arguments)
    if unknown:
        words = ["pinata", given.command, getattr(given, "action", None)]
        command = " ".join(word for word in words if word)
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}; see {command} --help")
    return given


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

    _add_running(commands)
    _add_reaching(commands)
    _add_reading(commands)
    _add_applying(commands)
    _add_collecting(commands)
    _add_herd(commands)
    _command(commands, "doctor", "look whether pinata can work here")
    install = _command(commands, "install", "have Pi sessions offer pinata's tools")
    uninstall = _command(commands, "uninstall", "have Pi sessions offer them no longer")
    for command in (install, uninstall):
        command.add_argument(
            "where", choices=("pi",), metavar="pi", help="the program that loads them"
        )

    help_ = "answer an MCP client on stdin and stdout, and own the runs that it starts"
    mcp = commands.add_parser("mcp", help=help_, description=help_, allow_abbrev=False)
    _trusting(mcp)
    _add_session(
        commands, "pi", "carry a Pi session's calls to its host, which is started if need be"
    )
    _add_session(commands, "host", "own the runs of a session, beside its program and beyond it")
    return parser


def _add_running(commands: _Commands) -> None:
    run = _command(commands, "run", "run the job in a JSON file and wait for its end")
    run.add_argument("job", help="the file; its `cwd` starts from its folder, a script from that")
    run.add_argument("--mode", choices=("lean", "observe"), help="which events to keep")
    _trusting(run)

    resume = _command(commands, "resume", "finish or close a run whose process died")
    _about_run(resume)

    help_ = "start again what was lost when a run's process died, and all that depends on it"
    rerun = _command(commands, "rerun", help_)
    _about_run(rerun)

    help_ = "have a builder mend its change, and have it reviewed anew"
    repair = _command(commands, "repair", help_)
    _about_run(repair)
    repair.add_argument("task", help="the builder")
    said = repair.add_mutually_exclusive_group(required=True)
    said.add_argument("--feedback", metavar="TEXT", help="what to mend")
    said.add_argument("--feedback-file", metavar="FILE", help="a text file that says it")

    for command in (run, resume, rerun, repair):
        command.add_argument("--plain", action="store_true", help="lines also on a terminal")


def _add_reaching(commands: _Commands) -> None:
    steer = _command(commands, "steer", "send a message to the agent of a running task")
    _about_run(steer)
    steer.add_argument("task", help="whose agent")
    steer.add_argument("message", help="what it is to read after its current turn")
    steer.add_argument(
        "--follow-up", action="store_true", help="have it read that once it would otherwise stop"
    )

    cancel = _command(commands, "cancel", "end a run that goes on, or one task of it")
    _about_run(cancel)
    cancel.add_argument("task", nargs="?", help="end this task alone, and block what needs it")


def _add_reading(commands: _Commands) -> None:
    agents = _command(commands, "agents", "show the definitions of agents, and what each is for")
    agents.add_argument("name", nargs="?", help="all about this one")
    _trusting(agents)

    _command(commands, "runs", "list the runs of this repository, the latest first")

    status = _command(commands, "status", "tell how a run stands")
    _about_run(status, latest=True)
    status.add_argument("task", nargs="?", help="one task of it")
    details = ("summary", "result", "transcript")
    status.add_argument("--detail", choices=details, help="what to tell of the task")
    status.add_argument("--offset", type=int, metavar="N", help="the first task to show, from 0")
    status.add_argument("--limit", type=int, metavar="N", help="the most tasks to show, 1 to 64")

    transcript = _command(commands, "transcript", "print an agent's whole conversation")
    _about_run(transcript)
    transcript.add_argument("task", help="whose conversation")
    transcript.add_argument(
        "--attempt", type=int, metavar="N", help="which one; the newest without"
    )

    logs = _command(commands, "logs", "print a run's event log")
    _about_run(logs, latest=True)
    logs.add_argument("task", nargs="?", help="only what concerns this task")
    logs.add_argument("--follow", action="store_true", help="go on until the run has settled")

    view = _command(commands, "view", "watch a run of any process live, steer and cancel it")
    help_ = "its id, or the beginning; the latest that has not ended without"
    view.add_argument("run", nargs="?", help=help_)
    view.add_argument("task", nargs="?", help="show the conversation of this task first")
    view.add_argument("--plain", action="store_true", help="lines also on a terminal")
    view.add_argument("--keep", action="store_true", help="stay when the run has ended")

    _command(commands, "tools", "describe the tools")


def _add_applying(commands: _Commands) -> None:
    changes = _command(commands, "changes", "hand a run's approved changes over, as patches")
    _about_run(changes)

    help_ = "check a checkout against a run, or a commit against evidence; changes neither"
    verify = _command(commands, "verify", help_)
    verify.add_argument("run", nargs="?", help="its id, or the beginning of one")
    verify.add_argument("--checks", metavar="FILE", help="a JSON array of checks for this time")
    verify.add_argument("--no-checks", metavar="WHY", help="run none, for this reason")
    verify.add_argument("--evidence", metavar="ID", help="the commit that holds it, or its ref")
    verify.add_argument("--expect", metavar="ID", help="the commit that the ref must be at")
    verify.add_argument("--commit", metavar="REV", help="what to verify; the checkout without it")
    verify.add_argument(
        "--run-checks", action="store_true", help="also run checks of evidence that nothing pins"
    )

    integrate = _command(commands, "integrate", "bring a run's approved change into the checkout")
    _about_run(integrate)

    rollback = _command(commands, "rollback", "take an integration back")
    _about_run(rollback)
    rollback.add_argument("--confirm", action="store_true", help="it is meant")


def _add_collecting(commands: _Commands) -> None:
    help_ = "tell what runs left and nobody needs, and with --confirm remove it"
    gc = commands.add_parser("gc", help=help_, description=help_, allow_abbrev=False)
    gc.add_argument("--json", action=_Once, help="print JSON")
    gc.add_argument("--confirm", action=_Once, help="it is meant")
    gc.add_argument(
        "--discard",
        action="append",
        metavar="RUN",
        help="its change is not wanted; may be repeated",
    )


def _add_herd(commands: _Commands) -> None:
    help_ = "look at the managed agents of this workspace, and speak for those that own them"
    herd = commands.add_parser("herd", help=help_, description=help_, allow_abbrev=False)
    does = herd.add_subparsers(dest="action", required=True, metavar="action")

    _command(does, "list", "show the agents and what can be done with each")
    inspect = _command(does, "inspect", "show the last lines that an agent's terminal would show")
    transcript = _command(does, "transcript", "print the end of an agent's conversation")
    steer = _command(does, "steer", "correct an agent without stopping it")
    reply = _command(does, "reply", "answer the question that an agent has asked its owner")
    close = _command(
        does, "close", "give up an agent and its task; closes its own agents before it"
    )
    config = _command(does, "config", "show or change what holds for all agents of this user")
    config.add_argument("key", nargs="?", help="of a setting; without one, all are shown")
    config.add_argument("value", nargs="?", help="what it shall be; `default` takes it back")
    aside = _command(does, "set-aside", "move a mailbox out of the way that cannot be read")
    aside.add_argument("folder", metavar="MAILBOX", help="its name, as list shows it")
    for command in (inspect, transcript, steer, reply, close):
        command.add_argument("agent", help="its label")
        command.add_argument(
            "--in",
            dest="workspace",
            metavar="WORKSPACE",
            help="that the agent was started in, where several have its label",
        )
    for command in (steer, reply):
        command.add_argument("message", help="what it is to read")
        command.add_argument(
            "--file", action="append", metavar="PATH", help="goes with it; may be repeated"
        )


def _about_run(command: argparse.ArgumentParser, *, latest: bool = False) -> None:
    if latest:
        command.add_argument("run", nargs="?", help="its id, or the beginning; the latest without")
    else:
        command.add_argument("run", help="its id, or the beginning of one")


def _add_session(commands: _Commands, name: str, help_: str) -> None:
    command = commands.add_parser(name, help=help_, description=help_, allow_abbrev=False)
    command.add_argument("--session", metavar="KEY", required=True, help="whose: its id")


def _trusting(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trust-project",
        action="store_true",
        help="heed the definitions and the configuration in the project's .pi folder",
    )


def _command(commands: _Commands, name: str, help_: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help_, description=help_, allow_abbrev=False)
    command.add_argument("--json", action="store_true", help="print JSON")
    return command
