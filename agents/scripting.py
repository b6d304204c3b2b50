"""The part of a system prompt that teaches to call tools from scripts, in the language at hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class ScriptLanguage(Enum):
    """What scripts are written in; the values are what a block of code is marked with."""

    PYTHON = "python"
    JAVASCRIPT = "js"


_PYTHON = """\
## Scripts

With `codemode` you can call your tools from a script in Python: each is a function of its name,
takes its arguments by name and returns the text that you would read. A call that is refused or
fails raises `RuntimeError`. You read what the script prints, and the value of its last expression.
"""

_JAVASCRIPT = """\
## Scripts

With `codemode` you can call your tools from a script in JavaScript, the body of an async function:
each is a method of `tools`, takes one object with its arguments and resolves to the text that you
would read, but for `bash`, whose object holds `output` and `exit_code`. A call that is refused or
fails rejects with an `Error`. You read what the script returns and what it hands to `text()`.
"""

_RULES = """\
Prefer one script for several calls that do not depend on your judgement in between. A script has
the same tools and limits as you have: each of its calls counts as one of yours, it has no files,
network or environment of its own, and it must never be used to reach credentials of the machine.
"""

_PYTHON_RULES = """\
Call the functions directly, without `await` or `map`. A script remembers nothing of earlier ones,
and can neither hand in your result nor start another script.
"""

_JAVASCRIPT_RULES = """\
Await every call. Leave the models alone that scripts can find under `models`: they are somebody
else's to pay. A script can neither hand in your result nor start another script.
"""

# One call of each tool that a reader of the example understands at once.
_SAMPLES: Mapping[str, tuple[str, str]] = {
    "find": ("pattern", "**/*.md"),
    "grep": ("pattern", "deprecated"),
    "ls": ("path", "docs"),
    "read": ("path", "README.md"),
    "bash": ("command", "git log --oneline -5"),
}


def _python_lines(first: str, more: Sequence[str]) -> list[str]:
    return [
        "try:",
        f"    text = {first}",
        '    print(len(text.splitlines()), "lines")',
        "except RuntimeError as error:",
        '    print("not done:", error)',
        *more,
    ]


def _javascript_lines(first: str, more: Sequence[str]) -> list[str]:
    return [
        "try {",
        f"  const found = await {first};",
        '  text(found.split("\\n").length + " lines");',
        "} catch (error) {",
        '  text("not done: " + error.message);',
        "}",
        *(f"return await {call};" for call in more),
    ]


@dataclass(frozen=True, slots=True)
class _Lesson:
    """How a language is taught: what comes first and last, a call, and an example of two."""

    opening: str
    rules: str
    call: Callable[[str, str, str], str]
    lines: Callable[[str, Sequence[str]], list[str]]


_LESSONS: Mapping[ScriptLanguage, _Lesson] = {
    ScriptLanguage.PYTHON: _Lesson(
        _PYTHON,
        _RULES + _PYTHON_RULES,
        lambda tool, name, value: f'{tool}({name}="{value}")',
        _python_lines,
    ),
    ScriptLanguage.JAVASCRIPT: _Lesson(
        _JAVASCRIPT,
        _RULES + _JAVASCRIPT_RULES,
        lambda tool, name, value: f'tools.{tool}({{ {name}: "{value}" }})',
        _javascript_lines,
    ),
}


def scripting(tools: Sequence[str], language: ScriptLanguage) -> list[str]:
    """Return the parts that teach to call `tools` from scripts, with an example of these tools."""
    lesson = _LESSONS[language]
    calls = [lesson.call(tool, *_SAMPLES[tool]) for tool in tools if tool in _SAMPLES]
    if not calls:
        return [lesson.opening, lesson.rules]
    lines = [f"```{language.value}", *lesson.lines(calls[0], calls[1:2]), "```\n"]
    return [lesson.opening, "\n".join(lines), lesson.rules]
