"""The names of the tools by which an owner manages its agents, and an agent asks its owner."""

from typing import Final

LIST: Final = "agent_list"
DELEGATE: Final = "agent_delegate"
CONTINUE: Final = "agent_continue"
STEER: Final = "agent_steer"
INTERRUPT: Final = "agent_interrupt"
REPLY: Final = "agent_reply"
CLOSE: Final = "agent_close"
INSPECT: Final = "agent_inspect"
TRANSCRIPT: Final = "agent_transcript"
ASK_OWNER: Final = "ask_owner"

# Those of owners, in the order in which models and people are shown them.
HERD_TOOL_NAMES: Final = (
    LIST,
    DELEGATE,
    CONTINUE,
    STEER,
    INTERRUPT,
    REPLY,
    CLOSE,
    INSPECT,
    TRANSCRIPT,
)
# Those that change nothing.
LOOKING: Final = frozenset({LIST, INSPECT, TRANSCRIPT})
