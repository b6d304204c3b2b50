"""Globs for paths, as gitignore(5) reads them, plus `{a,b}`.

They become regular expressions without backtracking (see `agents.filetools.pattern`), because a
glob with many stars is as dangerous as any other pattern.
"""

import re

from agents.filetools.pattern import compile_expression
from agents.filetools.tool import ToolFaultError


class Glob:
    """A compiled glob.

    One without a slash fits names at any depth; one with a slash fits from the searched directory
    on. `*` and `?` stop at slashes, `**` does not, and all of them fit hidden names. A slash at the
    end asks for directories.
    """

    def __init__(self, text: str) -> None:
        """Compile `text`.

        Raises:
            ToolFaultError: it is empty, or a brace in it is not closed.
        """
        self.directories_only = text.endswith("/")
        body = text.removeprefix("./").removesuffix("/")
        if not body:
            raise ToolFaultError("the glob is empty; '*' fits every name")
        anywhere = "/" not in body
        expression = "(?:.*/)?" if anywhere else ""
        self._regexp = compile_expression("(?s)" + expression + _translate(body.removeprefix("/")))

    def fits(self, path: bytes) -> bool:
        """Return whether the glob fits `path`, which is relative to the searched directory."""
        whole = path.decode("utf-8", "replace").encode()
        return self._regexp.fullmatch(whole) is not None


_TOKENS = re.compile(
    r"""
      (?P<folders> (?<![^/]) \*\*/ )
    | (?P<all>     \*\* )
    | (?P<star>    \* )
    | (?P<one>     \? )
    | (?P<set>     \[ [!^]? (?: \] [^\]]* | [^\]]+ ) \] )
    | (?P<open>    \{ )
    | (?P<close>   \} )
    | (?P<comma>   , )
    | \\(?P<escaped> . )
    | (?P<plain>   . )
    """,
    re.VERBOSE | re.DOTALL,
)

_FIXED = {"folders": "(?:.*/)?", "all": ".*", "star": "[^/]*", "one": "[^/]"}


def _translate(glob: str) -> str:
    out: list[str] = []
    depth = 0
    for token in _TOKENS.finditer(glob):
        kind, text = str(token.lastgroup), token.group(str(token.lastgroup))
        if kind in _FIXED:
            out.append(_FIXED[kind])
        elif kind == "set":
            out.append(_set(text))
        elif kind == "open":
            depth += 1
            out.append("(?:")
        elif kind == "close" and depth:
            depth -= 1
            out.append(")")
        elif kind == "comma" and depth:
            out.append("|")
        else:
            out.append(re.escape(text))
    if depth:
        raise ToolFaultError("a brace in the glob is not closed; write {a,b}, or \\{ for the sign")
    return "".join(out)


def _set(text: str) -> str:
    inside = text[1:-1]
    negated = inside[0] in "!^" and len(inside) > 1
    members = inside[1:] if negated else inside
    for sign in "\\[]^":
        members = members.replace(sign, "\\" + sign)
    return f"[{'^/' if negated else ''}{members}]"
