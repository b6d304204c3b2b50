"""Asks the program `gh` about pull requests, and says what of the user's environment that takes."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import trio

from engine.core.environment import child_environment
from engine.core.errors import ExternalError
from engine.core.quote import one_line
from engine.records.pull_request import FIELDS, PullRequestFacts, decode_pull_request
from engine.system.launch import LaunchError
from engine.system.output import ToFiles
from engine.system.process import ProcessSpec, run
from worktrees.machine import in_thread

ASK_LIMIT_S = 60.0
_OUTPUT_LIMIT_BYTES = 1 << 20
_SHOWN_CHARS = 300

# What lets `gh`, Git and ssh in, and what they need to get there. No agent and no check gets any of
# these, unless the job's `passEnv` names it.
ACCESS = frozenset(
    {
        # Tokens for GitHub and for servers of a company's own, and where `gh` keeps its logins.
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_ENTERPRISE_TOKEN",
        "GH_CONFIG_DIR",
        # Which server and which of several repositories are meant.
        "GH_HOST",
        "GH_REPO",
        # The agent that holds the keys of ssh, and how the user starts ssh.
        "SSH_AUTH_SOCK",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        # The desktop's store of logins is reached through this.
        "DBUS_SESSION_BUS_ADDRESS",
        # The way out of a network that has a gate.
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "GIT_SSL_CAINFO",
    }
)

# Nobody is there to answer, and nothing but the answer may be on stdout.
_SILENT = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "NO_COLOR": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}


def access(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user's that let Git, ssh and `gh` in."""
    return {name: value for name, value in environment.items() if name in ACCESS}


async def ask_pull_request(
    root: Path, environment: Mapping[str, str], number: int, scratch: Path, mark: str
) -> PullRequestFacts:
    """Return what `gh` says about a pull request of the repository at `root`.

    Args:
        root: a checkout whose remotes tell `gh` which repository is meant.
        environment: the user's.
        number: the pull request's.
        scratch: an existing folder that belongs to the engine.
        mark: what every process that this starts carries.

    Raises:
        ExternalError: `gh` is missing, failed, took more than a minute, wrote too much, or gave an
            answer that cannot be believed.
    """
    folder = Path(await in_thread(lambda: tempfile.mkdtemp(prefix="gh-", dir=scratch)))
    try:
        env = child_environment(environment, extra=access(environment) | _SILENT)
        # Into files: a program that writes without end is stopped by their limit, not by the time.
        output = ToFiles(folder / "stdout", folder / "stderr", _OUTPUT_LIMIT_BYTES)
        argv = ("gh", "pr", "view", str(number), "--json", ",".join(FIELDS))
        said = await _ask(ProcessSpec(argv, root, env, output=output, mark=mark), output)
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(shutil.rmtree, folder)
    return decode_pull_request(said, number)


async def _ask(spec: ProcessSpec, output: ToFiles) -> bytes:
    ended = None
    with trio.move_on_after(ASK_LIMIT_S):
        try:
            ended = await run(spec)
        except LaunchError as error:
            raise ExternalError(
                f"gh, the command line of GitHub, cannot be started ({error.reason}); install it "
                "and log in with `gh auth login`"
            ) from error
    if ended is None:
        raise ExternalError(f"gh did not answer within {ASK_LIMIT_S:.0f} seconds and was stopped")
    if ended.overflowed:
        raise ExternalError("gh wrote more than an answer about a pull request can hold")
    if ended.code != 0:
        stderr = await in_thread(output.stderr.read_bytes)
        reason = one_line(stderr.decode("utf-8", "replace"), _SHOWN_CHARS)
        raise ExternalError(f"gh cannot show the pull request: {reason or 'it gave no reason'}")
    return await in_thread(output.stdout.read_bytes)
