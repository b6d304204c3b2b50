from pathlib import Path

from agents.herdsman.agent_prompt import agent_prompt


def test_a_prompt_has_the_persona_the_place_and_the_tools() -> None:
    text = agent_prompt(
        "You look.\n",
        Path("/repo"),
        declared=("read", "ask_owner"),
        scripted=None,
        instructions=("## More\n\nStay calm.\n",),
    )
    assert text.startswith("You look.\n\n## Your place\n")
    assert "You work in `/repo`." in text
    assert "## Your tools\n\n- `read`\n- `ask_owner`\n" in text
    assert text.endswith("\n## More\n\nStay calm.\n")
    assert "codemode" not in text


def test_an_agent_without_tools_is_told_of_none() -> None:
    text = agent_prompt("You look.\n", Path("/repo"), declared=(), scripted=None)
    assert "## Your tools" not in text


def test_scripts_are_taught_in_python_with_the_tools_that_they_can_call() -> None:
    text = agent_prompt(
        "You look.\n", Path("/repo"), declared=("ls", "codemode", "ask_owner"), scripted=("ls",)
    )
    assert "## Scripts" in text
    assert 'ls(path="docs")' in text


def test_a_persona_that_stands_alone_keeps_scripts_and_instructions() -> None:
    text = agent_prompt(
        "You look.\n",
        Path("/repo"),
        declared=("ls",),
        scripted=("ls",),
        instructions=("Stay calm.\n",),
        stands_alone=True,
    )
    assert text.startswith("You look.\n\n## Scripts")
    assert text.endswith("Stay calm.\n")
    assert "## Your place" not in text
