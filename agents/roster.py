"""The roster: which definitions there are, layered folder over folder, and what each can serve.

One bad file never hides another definition: it makes its own name unavailable, with the reason, and
whatever refers to that name.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.definition import Definition, Source
from agents.definition_file import FaultError, FrontMatter, read_definition_file
from agents.definition_folder import find_definition_files
from agents.definition_rules import build
from agents.herd_definition import HerdDefinition, Passage
from engine.core.changes import quote_path
from engine.core.quote import quote_value
from engine.core.spec import Kind

BUNDLED_FOLDER = Path(__file__).parent / "definitions"
HERD_ONLY = (
    "has no kind, so it is for managed agents only; "
    "add the kind reader, writer or reviewer to use it in runs"
)
DISABLED = "is disabled; set enabled: true to use it"


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder of definitions.

    Attributes:
        within: what links in the folder may not lead out of; None lets them lead anywhere.
    """

    source: Source
    folder: Path
    within: Path | None = None


BUNDLED = Layer(Source.PRESET, BUNDLED_FOLDER)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A definition that cannot be used, and why.

    Attributes:
        file: the one to be corrected, absolute, for people.
        fault: that file and what is wrong with it, which is all that mending it takes.
        kind, description: as far as they are known.
    """

    name: str
    source: Source
    reason: str
    file: str
    fault: str
    kind: Kind | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Roster:
    """The definitions that there are.

    Attributes:
        definitions: those that runs can use, by name, sorted.
        unavailable: those that have a fault or are disabled, sorted by name.
        notices: sentences about what was left out.
        overlays: sentences about each name that several layers speak of.
        herd: those that managed agents can be launched from, by name, sorted; the disabled too.
    """

    definitions: Mapping[str, Definition]
    unavailable: tuple[Unavailable, ...] = ()
    notices: tuple[str, ...] = ()
    overlays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    herd: Mapping[str, HerdDefinition] = field(default_factory=dict)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each definition that runs can use."""
        return {name: definition.kind for name, definition in self.definitions.items()}

    @property
    def reasons(self) -> dict[str, str]:
        """Why each of the others cannot be used in runs."""
        herd_only = {name: HERD_ONLY for name, each in self.herd.items() if each.kind is None}
        return herd_only | {each.name: each.reason for each in self.unavailable}

    def notices_on(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what a caller should know who uses the definitions `names`."""
        used = sorted(set(names))
        return (*self.notices, *(said for name in used for said in self.overlays.get(name, ())))


@dataclass(slots=True)
class _Draft:
    """What the layers so far say about one name.

    Attributes:
        file: the uppermost.
        fault: what is wrong with that alone, whatever the others say.
    """

    source: Source
    sources: tuple[Source, ...]
    file: Path
    fault: str | None = None
    settings: FrontMatter = field(default_factory=FrontMatter)
    passages: tuple[Passage, ...] = ()

    def build(self, name: str) -> tuple[HerdDefinition, Definition | None]:
        """Return what the herd can launch and what runs can use.

        Raises:
            FaultError: it cannot be used.
        """
        if self.fault is not None:
            raise FaultError(self.reason)
        return build(name, self.settings, self.passages, self.sources, _place(self.file))

    @property
    def reason(self) -> str:
        """Its fault, with the name of the file."""
        return f"{_shown(self.file.name)}: {self.fault}"


def load_roster(layers: Sequence[Layer] = (BUNDLED,)) -> Roster:
    """Read the definitions of all layers; blocks, so call it in a thread.

    A later file of a name overlays the earlier one: settings that it states replace those below,
    and so does its text unless it is empty or says that it is to be appended. It cannot change the
    kind. A folder that is not there holds nothing.

    Args:
        layers: the lowest first.
    """
    drafts: dict[str, _Draft] = {}
    notices: list[str] = []
    overlays: dict[str, tuple[str, ...]] = {}
    for layer in layers:
        for name, draft in _drafts(layer, drafts, notices):
            if name in drafts:
                said = _overlay_notice(name, layer.source, drafts[name])
                overlays[name] = (*overlays.get(name, ()), said)
            drafts[name] = draft
    built: dict[str, HerdDefinition] = {}
    usable: dict[str, Definition] = {}
    faults: dict[str, str] = {}
    for name, draft in sorted(drafts.items()):
        try:
            built[name], definition = draft.build(name)
        except FaultError as fault:
            faults[name] = str(fault)
        else:
            usable |= {} if definition is None else {name: definition}
    faults |= _broken_references(built)
    herd = {name: each for name, each in built.items() if name not in faults}
    disabled = {name: DISABLED for name in usable if name in herd and not herd[name].enabled}
    out_of_use = faults | disabled
    return Roster(
        definitions={name: each for name, each in usable.items() if name not in out_of_use},
        unavailable=tuple(
            _unavailable(name, drafts[name], reason) for name, reason in sorted(out_of_use.items())
        ),
        notices=tuple(notices),
        overlays=overlays,
        herd=herd,
    )


def _unavailable(name: str, draft: _Draft, reason: str) -> Unavailable:
    settings, file = draft.settings, _place(draft.file)
    return Unavailable(
        name=name,
        source=draft.source,
        reason=reason,
        file=file,
        fault=f"{file}: {draft.fault or reason}",
        kind=settings.kind,
        description=settings.description,
    )


def _drafts(
    layer: Layer, below: Mapping[str, _Draft], notices: list[str]
) -> Iterator[tuple[str, _Draft]]:
    """Yield each name that the layer speaks of, with its files laid over what is `below`."""
    found = find_definition_files(layer.folder, layer.within)
    notices += found.notices
    for stem, path in found.outside.items():
        fault = "is a link that leads out of the repository; put the file itself there"
        yield _shown(stem), _faulty(path, layer.source, below.get(stem), fault)
    for stem, paths in found.files.items():
        draft = below.get(stem)
        if len(paths) > 1 or stem in found.outside:
            names = " and ".join(_shown(str(path.relative_to(layer.folder))) for path in paths[:2])
            fault = f"stands more than once ({names}); rename one"
            yield _shown(stem), _faulty(paths[0], layer.source, draft, fault)
            continue
        try:
            yield stem, _overlaid(paths[0], layer.source, draft)
        except FaultError as error:
            yield _shown(stem), _faulty(paths[0], layer.source, draft, str(error))


def _shown(name: str) -> str:
    """Return a name of the file system for people, quoted as Git does when it is not UTF-8."""
    return quote_path(os.fsencode(name))


def _faulty(path: Path, source: Source, below: _Draft | None, fault: str) -> _Draft:
    """Return a draft that cannot be used, but keeps what is below for those above."""
    return replace(below or _Draft(source, (), path), source=source, file=path, fault=fault)


def _place(path: Path) -> str:
    return _shown(str(path.absolute()))


def _overlaid(path: Path, source: Source, below: _Draft | None) -> _Draft:
    """Return the draft once the file's settings lie over those `below`.

    Raises:
        FaultError: the file is not what it must be, or changes what it may not.
    """
    stated, text = read_definition_file(path)
    passages: tuple[Passage, ...] = ()
    if text:
        passages = (Passage(str(path.parent.absolute()), text),)
    if below is None or not below.sources:
        if stated.body_mode is not None:
            raise FaultError("bodyMode: there is no definition below to append to; remove it")
        return _Draft(source, (source,), path, settings=stated, passages=passages)
    kind = below.settings.kind
    if kind is not None and stated.kind not in (None, kind):
        raise FaultError(f"an overlay cannot change the kind {kind.value}; use another name")
    if passages and stated.body_mode == "append":
        passages = (*below.passages, *passages)
    return _Draft(
        source,
        (*below.sources, source),
        path,
        settings=below.settings.model_copy(update=_stated(stated)),
        passages=passages or below.passages,
    )


def _stated(settings: FrontMatter) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.model_fields_set}


def _overlay_notice(name: str, source: Source, below: _Draft) -> str:
    if below.fault is not None:
        return f"agent {name}: the {below.source.value} definition is left out: {below.reason}"
    return f"agent {name}: the {source.value} definition overlays the {below.source.value} one"


def _broken_references(built: Mapping[str, HerdDefinition]) -> dict[str, str]:
    """Return why definitions are unavailable that refer to such as are, over any distance."""
    broken: dict[str, str] = {}
    referring: dict[str, list[str]] = {}
    for name, each in built.items():
        for other in each.agents or ():
            referring.setdefault(other, []).append(name)
    waiting = [name for name in referring if name not in built]
    while waiting:
        other = waiting.pop()
        for name in referring.get(other, ()):
            if name not in broken:
                broken[name] = (
                    f"agents: {quote_value(other)} is not available; correct or remove it"
                )
                waiting.append(name)
    return broken
