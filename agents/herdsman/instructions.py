"""What a session that may delegate is told about agents when it begins."""

import json
from typing import Final

from agents.herdsman.caller import Caller
from agents.herdsman.policy import show_roster
from agents.roster import Roster

_HEADING: Final = "# Agents"
_GUIDANCE: Final = """\
You can hand tasks to agents that work by themselves, each in a session of its own.

- To delegate is to hand the work over. Once agent_delegate or agent_continue has answered, the
  agent does it: do not do the same work meanwhile, and do not wait for it by polling, sleeping or
  calling agent_list again and again. Go on with something else, or end your turn. Its result,
  its question or trouble with it comes to you as a message, and wakes you.
- Each agent has one task and is gone once its result was delivered. A follow-up is a new agent:
  agent_continue for one that remembers the session that the result names, agent_delegate for a
  fresh one.
- An agent sees its task and nothing of this conversation. State the goal, what is decided and why,
  and what the answer has to contain. `files` is the only way to hand it evidence: paths, and
  references such as result:scout#1 exactly as a result showed them.
- Do not attach or mention instruction files such as AGENTS.md, CLAUDE.md or GEMINI.md merely
  because they are there: agents find by themselves what holds for them. Attach one only if the task
  is about it, somebody asks for it, or it would not reach the agent otherwise. Attach a SKILL.md
  only if the task needs it and the definition does not bring it along.
- `available_tools` in agent_list says what can be called on an agent now. Go by it, and never by
  the state alone.
- An agent that is lost, stale or unknown has not finished. What it was doing is not done, and
  nothing may be concluded from its silence. Read what the message about it says before you act.
- A correction is agent_steer, which waits for the agent's next step; agent_interrupt stops what
  hangs. Use agent_close only to give a task up.
"""
_SNAPSHOT: Final = """\
The definitions that agent_delegate can use, as they were when this session began. agent_list shows
how they are now, and the agents that there are."""
_NOTHING: Final = "There are no definitions that you can use now; agent_list shows when there are."


def instructions(roster: Roster, caller: Caller) -> str:
    """Return what `caller` is told: how to work with agents, and the definitions, as JSON.

    The definitions are exactly those that `agent_list` would show at the same moment.
    """
    shown = show_roster(roster, caller)
    if not shown:
        return f"{_HEADING}\n\n{_GUIDANCE}\n{_NOTHING}\n"
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in shown)
    return f"{_HEADING}\n\n{_GUIDANCE}\n{_SNAPSHOT}\n\n```json\n[\n{lines}\n]\n```\n"
