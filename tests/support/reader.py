"""Somebody who reads the pages for people: their blocks and tables, and a shell to type them into.

What stands behind a block's language says what the block is. A `sh` block is copied whole. In a
`console` block a line with `$ ` in front is typed, and what stands below it is what the screen
shows then; `…` leaves out a part of a line, or lines where it stands alone. A block marked
`with-model` needs a real model, and is read but not run. A block with a file's name behind its
language is saved under that name.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WITH_MODEL = "with-model"
# Where pages have their reader live; the tests have them live in a temporary folder.
HOME = "/home/robin"
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"run ([0-9a-f]{16})")
_ELIDED = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page.

    Attributes:
        words: what stands behind the language.
    """

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The name under which the block is to be saved, if it is a file."""
        return next((word for word in self.words if "." in word), None)


@dataclass(frozen=True, slots=True)
class Step:
    """A command as it is typed, and what the page says the screen shows then."""

    command: str
    shown: tuple[str, ...]


def page(name: str) -> str:
    """Return the text of a page of the documentation, or of the project's root with `../`."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[Block]:
    """Return the blocks of a page in their order, those of `languages` if any are named."""
    found = [Block(one[1], tuple(one[2].split()), one[3]) for one in _BLOCK.finditer(text)]
    return [one for one in found if not languages or one.language in languages]


def section(text: str, heading: str) -> str:
    """Return what stands below a heading of the second level, up to the next one."""
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def prose(text: str) -> str:
    """Return a text as it is read, however its lines are broken."""
    return " ".join(text.split())


def rows(text: str) -> list[list[str]]:
    """Return the cells of the rows that begin with something in backticks."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a console block; one that ends in a backslash goes on after `> `."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        command = [lines.pop(0)]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0).removeprefix("> "))
        yield Step("\n".join(command), tuple(lines))


@dataclass(slots=True)
class Shell:
    """A person's shell in a home of their own, in which pages are followed word for word.

    Attributes:
        home: stands for the home folder that pages show.
        code: with what the last command ended.
        cwd: where it is.
        tools: folders with programs that the reader has, besides those of every system.
    """

    home: Path
    code: int = 0
    tools: tuple[Path, ...] = ()
    cwd: Path = field(init=False)
    _ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin in the home folder of somebody whom Git does not know by name yet."""
        self.home.mkdir(parents=True)
        self.cwd = self.home
        (self.home / ".gitconfig").write_text(
            "[init]\n\tdefaultBranch = main\n[user]\n\tuseConfigOnly = true\n"
        )

    def follow(self, text: str) -> None:
        """Copy and type everything on a page that needs no real model.

        Raises:
            AssertionError: the screen does not show what the page says, or a command fails and the
                page does not ask for its exit code.
        """
        for block in blocks(text):
            if block.file is not None:
                self.save(block.file, block.text)
            elif WITH_MODEL in block.words:
                continue
            elif block.language == "sh":
                shown = self._type(f"set -e\n{block.text}")
                assert self.code == 0, shown
            elif block.language == "console":
                self._follow_console(block)

    def save(self, name: str, text: str) -> None:
        """Write a file below where the shell is, or below `~/`."""
        path = self.home / name[2:] if name.startswith("~/") else self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _follow_console(self, block: Block) -> None:
        todo = list(steps(block))
        for step, following in zip(todo, [*todo[1:], None], strict=True):
            self._carry_out(step)
            asked = following is not None and following.command == "echo $?"
            assert asked or self.code == 0, (step.command, self.code)

    def _carry_out(self, step: Step) -> None:
        shown = self._type(self._real(step.command))
        self._learn_ids(step.shown, shown)
        wanted = [_masked(self._real(line)) for line in step.shown]
        pattern = "".join(
            "(?:.*\n)*?" if line == _ELIDED else f"{_any_for_elided(line)}\n" for line in wanted
        )
        # Empty lines are there for the eye, between one command of a page and the next.
        seen = "".join(f"{_masked(line)}\n" for line in shown.splitlines())
        assert re.fullmatch(pattern + "\n*", seen), "\n".join(
            [step.command, "the page says:", *wanted, "the screen shows:", seen]
        )

    def _type(self, command: str) -> str:
        """Return what a command shows; where it leaves the shell is where the next one starts."""
        script = f'trap "pwd >&3" EXIT\n(exit {self.code})\n{command}\n'
        place = self.home / ".cwd"
        done = subprocess.run(
            ["bash", "-c", f"exec 3>{place}\n{script}"],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.code = done.returncode
        self.cwd = Path(place.read_text().strip())
        return done.stdout

    @property
    def env(self) -> dict[str, str]:
        """What its programs see."""
        folders = (Path(sys.executable).parent, *self.tools)
        return {
            "PATH": ":".join([*map(str, folders), "/usr/local/bin:/usr/bin:/bin"]),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "80",
        }

    def _learn_ids(self, said: tuple[str, ...], shown: str) -> None:
        """Remember which run of this shell stands for which run of the page."""
        for old, new in zip(said, shown.splitlines(), strict=False):
            if (told := _RUN.fullmatch(old)) and (made := _RUN.fullmatch(new)):
                self._ids |= {told[1]: made[1], told[1][:8]: made[1][:8]}

    def _real(self, line: str) -> str:
        for told, made in sorted(self._ids.items(), reverse=True):
            line = line.replace(told, made)
        return line.replace(HOME, str(self.home))


def _any_for_elided(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split(_ELIDED))


def _masked(line: str) -> str:
    """Return a line without what differs from one time to the next."""
    line = re.sub(r"\b[0-9a-f]{7,64}\b", "<id>", line)
    line = re.sub(r"\b\d+\.\d+\.\d+\b", "<version>", line)
    line = re.sub(r"^ +\d+\.\d\d  ", "<time> ", line)
    line = re.sub(r"\b\d+(?:\.\d+)?(?= m?s\b)", "<n>", line)
    return re.sub(r"  +", " ", line).rstrip()
