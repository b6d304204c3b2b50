"""Repositories of every kind that people have, each made by a function of its own."""

import os
import shlex
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.core.ids import CommitId
from tests.support.projects import Project
from tests.support.repos import RepoBuilder

Build = Callable[[Project], object]

FILES: dict[str, str | bytes] = {
    "kept.txt": "kept\n",
    "edited.txt": "before\n",
    "deleted.txt": "going\n",
    "folder/inner.txt": "inner\n",
    "folder/deep/er.txt": "deep\n",
    "outside/far.txt": "far\n",
    ".gitignore": "*.ignored\n",
}
HOSTILE_NAMES = (
    b"two\nlines",
    b"latin-\xe9",
    b"-dash",
    b":(glob)*",
    b'"quoted"',
    b"back\\slash",
    b"tab\tbed",
    b"*[x]?",
    "decomposed-e\u0301".encode(),
    "composed-\u00e9".encode(),
)


def program(project: Project, name: str, script: str) -> str:
    """Write a shell script beside the repository and return the words that run it."""
    path = project.folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return shlex.quote(str(path))


def wrap_git(project: Project, before: str) -> None:
    """Let `git` be a script that does something first; from now on for everybody here."""
    real = shutil.which("git", path=project.repo.env["PATH"])
    folder = project.folder / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\n{before}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    project.repo.env["PATH"] = f"{folder}:{project.repo.env['PATH']}"


def dirty(project: Project) -> None:
    repo = project.repo
    repo.write("edited.txt", "after\n")
    (repo.root / "deleted.txt").unlink()
    repo.write("new/file.txt", "new\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "edited after staging\n")
    repo.write("not.ignored", "not stored\n")


def large_file_filter(project: Project) -> None:
    """What git-lfs does: a pointer is stored, the content lies elsewhere."""
    store = project.folder / "large"
    store.mkdir()
    clean = f't=$(mktemp); cat >"$t"; s=$(sha256sum <"$t"); s=${{s%% *}}; mv "$t" {store}/"$s"'
    clean = program(project, "clean", f'{clean}; printf "version 1\\noid %s\\n" "$s"')
    smudge = program(project, "smudge", f"read v; read o s; cat {store}/$s")
    repo = project.repo
    repo.git("config", "filter.large.clean", clean)
    repo.git("config", "filter.large.smudge", smudge)
    repo.git("config", "filter.large.required", "true")
    repo.write(".gitattributes", "*.bin filter=large -text\n")
    repo.write("one.bin", bytes(range(256)))
    repo.commit("a large file")
    repo.write("two.bin", b"two" * 1000)


def line_endings_by_configuration(project: Project) -> None:
    project.repo.write("crlf-stored.txt", "a\r\nb\r\n")
    project.repo.commit("stored with carriage returns")
    project.repo.git("config", "core.autocrlf", "true")
    project.repo.git("config", "core.safecrlf", "true")
    project.repo.write("crlf.txt", "a\r\nb\r\n")
    project.repo.write("mixed.txt", "a\r\nb\n")


def line_endings_by_attribute(project: Project) -> None:
    rules = "*.txt text=auto\n*.bat text eol=crlf\n*.raw -text\n[attr]flat -text -diff\n*.f flat\n"
    project.repo.write(".gitattributes", rules)
    project.repo.write("folder/.gitattributes", "*.raw text\n")
    project.repo.write(".git/info/attributes", "*.own text\n")
    for name in ("a.txt", "a.bat", "a.raw", "folder/a.raw", "a.own", "a.f"):
        project.repo.write(name, "one\r\ntwo\r\n")


def encodings(project: Project) -> None:
    project.repo.write(".gitattributes", "*.u16 text working-tree-encoding=UTF-16LE\n")
    project.repo.write("old.u16", "old\n".encode("utf-16-le"))
    project.repo.commit("another encoding")
    project.repo.write("new.u16", "new\n".encode("utf-16-le"))


def identity_marks(project: Project) -> None:
    project.repo.write(".gitattributes", "*.c ident export-ignore\n")
    project.repo.write("a.c", "$Id$\n")
    project.repo.commit("marks")
    project.repo.write("b.c", "$Id: stale $\n")


def submodule(project: Project) -> RepoBuilder:
    other = RepoBuilder.create(project.folder / "lib", {"lib.txt": "lib\n"})
    allow = ("-c", "protocol.file.allow=always")
    project.repo.git(*allow, "submodule", "--quiet", "add", str(other.root), "lib")
    project.repo.commit("a submodule")
    return RepoBuilder(project.repo.root / "lib", project.repo.env)


def submodule_with_new_commit(project: Project) -> None:
    inner = submodule(project)
    inner.write("lib.txt", "newer\n")
    inner.commit("newer")


def submodule_not_initialised(project: Project) -> None:
    submodule(project)
    project.repo.git("submodule", "--quiet", "deinit", "--force", "lib")


def submodule_edited(project: Project) -> None:
    submodule(project).write("lib.txt", "edited\n")


def submodule_that_asks_to_be_ignored(project: Project) -> None:
    submodule_edited(project)
    project.repo.git("config", "submodule.lib.ignore", "all")
    project.repo.git("config", "diff.ignoreSubmodules", "all")


def submodule_absent(project: Project) -> None:
    submodule(project)
    shutil.rmtree(project.repo.root / "lib")


def nested_with_commit(project: Project) -> None:
    RepoBuilder.create(project.repo.root / "nested")
    shutil.rmtree(project.repo.root / "nested-home")


def nested_without_commit(project: Project) -> None:
    project.repo.git("init", "--quiet", "nested")
    project.repo.write("nested/file.txt", "inside\n")


def bogus_git_file(project: Project) -> None:
    project.repo.write("odd/.git", "this is not a repository\n")
    project.repo.write("odd/file.txt", "stored\n")


def links_and_modes(project: Project) -> None:
    repo = project.repo
    (repo.root / "dangling").symlink_to("nowhere")
    (repo.root / "to-folder").symlink_to("folder")
    (repo.root / "edited.txt").unlink()
    (repo.root / "edited.txt").symlink_to("kept.txt")
    (repo.root / "folder/inner.txt").chmod(0o755)


def modes_do_not_count(project: Project) -> None:
    project.repo.git("config", "core.fileMode", "false")
    (project.repo.root / "edited.txt").chmod(0o755)


def links_are_files(project: Project) -> None:
    (project.repo.root / "link").symlink_to("kept.txt")
    project.repo.commit("a link")
    project.repo.git("config", "core.symlinks", "false")
    (project.repo.root / "link").unlink()
    project.repo.write("link", "edited.txt")


def odd_files(project: Project) -> None:
    os.mkfifo(project.repo.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        # The name of a socket may not be long, so it is made where the path to it is short.
        here = os.open(project.repo.root, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    (project.repo.root / "empty").mkdir()


def files_and_folders_swapped(project: Project) -> None:
    repo = project.repo
    (repo.root / "edited.txt").unlink()
    repo.write("edited.txt/inner.txt", "deeper\n")
    shutil.move(repo.root / "folder/deep", repo.root / "moved")
    (repo.root / "folder/deep").symlink_to("../moved")
    (repo.root / "folder/inner.txt").unlink()


def sparse(project: Project) -> None:
    project.repo.git("sparse-checkout", "set", "--cone", "folder/deep")
    project.repo.write("folder/deep/er.txt", "edited\n")


def sparse_index(project: Project) -> None:
    project.repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "folder/deep")
    project.repo.write("folder/deep/er.txt", "edited\n")


def cloned(project: Project, *options: str) -> None:
    """Let the checkout be a clone of the repository, in the folder `clone`."""
    upstream = project.repo
    upstream.git("config", "uploadpack.allowFilter", "true")
    place = project.folder / "clone"
    upstream.git("clone", "--quiet", *options, f"file://{upstream.root}", str(place))
    project.repo = replace(upstream, root=place)


def partial_clone(project: Project) -> None:
    project.repo.write("edited.txt", "a second version\n")
    project.repo.commit("second")
    cloned(project, "--filter=blob:none")
    # Whatever is fetched from now on is not there.
    project.repo.git("remote", "set-url", "origin", "file:///nowhere")
    project.repo.write("edited.txt", "edited\n")


def shallow_clone(project: Project) -> None:
    project.repo.write("edited.txt", "a second version\n")
    project.repo.commit("second")
    cloned(project, "--depth=1")
    project.repo.write("edited.txt", "edited\n")


def shared_objects(project: Project) -> None:
    place = project.folder / "clone"
    project.repo.git("clone", "--quiet", "--shared", str(project.repo.root), str(place))
    project.repo = replace(project.repo, root=place)
    project.repo.write("edited.txt", "edited\n")


def replaced_commit(project: Project) -> None:
    repo = project.repo
    first = repo.ask("rev-parse", "HEAD")
    repo.write("edited.txt", "a second version\n")
    second = repo.commit("second")
    repo.git("replace", second, first)


def settings_of_the_worktree(project: Project) -> None:
    project.repo.git("config", "extensions.worktreeConfig", "true")
    project.repo.git("config", "--worktree", "core.autocrlf", "true")
    project.repo.write("crlf.txt", "a\r\nb\r\n")


def linked_worktree(project: Project) -> None:
    place = project.folder / "linked"
    project.repo.git("worktree", "add", "--quiet", "-b", "side", str(place))
    project.repo = replace(project.repo, root=place)
    dirty(project)


def separate_folder(project: Project) -> None:
    project.repo.git("init", "--quiet", f"--separate-git-dir={project.folder / 'elsewhere.git'}")
    dirty(project)


def working_tree_by_configuration(project: Project) -> None:
    separate_folder(project)
    project.repo.git("config", "core.worktree", str(project.repo.root))


def detached(project: Project) -> None:
    project.repo.git("checkout", "--quiet", "--detach")
    dirty(project)


def bisecting(project: Project) -> None:
    project.repo.git("bisect", "start")
    dirty(project)


def announced_file(project: Project) -> None:
    project.repo.write("announced.txt", "announced\n")
    project.repo.git("add", "--intent-to-add", "announced.txt")


def hidden_edit(project: Project) -> None:
    project.repo.git("update-index", "--assume-unchanged", "edited.txt")
    project.repo.write("edited.txt", "hidden\n")


def skipped_edit(project: Project) -> None:
    project.repo.git("update-index", "--skip-worktree", "edited.txt")
    project.repo.write("edited.txt", "hidden\n")


def skipped_and_absent(project: Project) -> None:
    project.repo.git("update-index", "--skip-worktree", "edited.txt")
    (project.repo.root / "edited.txt").unlink()


def ignore_rules_everywhere(project: Project) -> None:
    repo = project.repo
    repo.write("forced.ignored", "tracked all the same\n")
    repo.git("add", "--force", "forced.ignored")
    repo.write("sub/.gitignore", "*.tmp\n!keep.tmp\n")
    repo.write(".git/info/exclude", "excluded.txt\n")
    repo.write(repo.home / "own-rules", "own.txt\n")
    repo.git("config", "core.excludesFile", "~/own-rules")
    for name in ("sub/a.tmp", "sub/keep.tmp", "excluded.txt", "own.txt", "seen.txt"):
        repo.write(name, "x\n")


def ignore_rules_of_home(project: Project) -> None:
    project.repo.write(project.repo.home / "config/git/ignore", "own.txt\n")
    project.repo.write("own.txt", "ignored\n")
    project.repo.write("seen.txt", "stored\n")


def hostile_names(project: Project) -> None:
    for name in HOSTILE_NAMES:
        project.repo.write(name, name)
    project.repo.commit("odd names")
    for name in HOSTILE_NAMES[::2]:
        project.repo.write(name, name + b" again")
    for name in HOSTILE_NAMES[1::2]:
        (project.repo.root / os.fsdecode(name)).unlink()


def other_capitals(project: Project) -> None:
    (project.repo.root / "edited.txt").rename(project.repo.root / "Edited.TXT")


def locked_index(project: Project) -> None:
    dirty(project)
    project.repo.write(".git/index.lock", "")


def split_index(project: Project) -> None:
    project.repo.git("update-index", "--split-index")
    dirty(project)


def index_of_another_form(project: Project) -> None:
    project.repo.git("update-index", "--index-version", "4", "--untracked-cache")
    project.repo.git("config", "core.untrackedCache", "true")
    project.repo.git("config", "index.skipHash", "true")
    dirty(project)


def nobody_and_signed(project: Project) -> None:
    project.repo.git("config", "user.useConfigOnly", "true")
    project.repo.git("config", "commit.gpgSign", "true")
    project.repo.git("config", "gpg.program", "/nowhere")
    dirty(project)


def long_path(project: Project) -> None:
    project.repo.write("/".join(["x" * 200] * 15) + "/file.txt", "far down\n")


def same_second_edits(project: Project) -> None:
    for number in range(40):
        project.repo.write(f"racy-{number}.txt", "aaaa")
    project.repo.commit("racy")
    for number in range(40):
        project.repo.write(f"racy-{number}.txt", "bbbb")


@dataclass(frozen=True, slots=True)
class Noticed:
    """A repository that is worked on, with something to say.

    Attributes:
        says: part of a notice.
        differs: whether pinata means to store something else than Git would.
    """

    build: Build
    says: str
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A repository that no builder starts from.

    Attributes:
        says: a pattern for part of the sentence.
        reachable: whether every path in it can be named to the system.
    """

    build: Build
    says: str
    reachable: bool = True


def big_file(project: Project) -> None:
    with project.repo.place("big.bin").open("wb") as file:
        file.truncate((100 << 20) + 1)


def failing_filter(project: Project) -> None:
    project.repo.git("config", "filter.broken.clean", "false")
    project.repo.git("config", "filter.broken.required", "true")
    project.repo.write(".gitattributes", "*.bin filter=broken\n")
    project.repo.write("one.bin", "x")


def other_object_ids(project: Project) -> None:
    place = project.folder / "long"
    project.repo.git("init", "--quiet", "--object-format=sha256", str(place))
    project.repo = replace(project.repo, root=place)
    project.repo.write("kept.txt", "kept\n")
    project.repo.commit("first")


def extension(name: str, value: str) -> Build:
    def build(project: Project) -> None:
        project.repo.git("config", "core.repositoryFormatVersion", "1")
        project.repo.git("config", f"extensions.{name}", value)

    return build


def bare(project: Project) -> None:
    place = project.folder / "bare"
    project.repo.git("clone", "--quiet", "--bare", str(project.repo.root), str(place))
    project.repo = replace(project.repo, root=place)


def unborn(project: Project) -> None:
    project.repo.git("checkout", "--quiet", "--orphan", "empty")


def sides(project: Project) -> CommitId:
    """Leave two branches that both changed `edited.txt`; return the other one's commit."""
    project.repo.git("checkout", "--quiet", "-b", "side")
    project.repo.write("edited.txt", "theirs\n")
    theirs = project.repo.commit("theirs")
    project.repo.git("checkout", "--quiet", "main")
    project.repo.write("edited.txt", "ours\n")
    project.repo.commit("ours")
    return theirs


def fails(project: Project, *arguments: str) -> None:
    """Run git where it is to end in a conflict."""
    alias = " ".join(shlex.quote(word) for word in arguments)
    project.repo.git("-c", f"alias.tried=!git {alias} >/dev/null 2>&1 || true", "tried")


def unmerged(project: Project) -> None:
    sides(project)
    fails(project, "merge", "side")


def merge_with_all_resolved(project: Project) -> None:
    unmerged(project)
    project.repo.write("edited.txt", "both\n")
    project.repo.git("add", "edited.txt")


def rebase_under_way(project: Project) -> None:
    sides(project)
    fails(project, "rebase", "side")
    project.repo.write("edited.txt", "both\n")
    project.repo.git("add", "edited.txt")


def cherry_pick_under_way(project: Project) -> None:
    fails(project, "cherry-pick", sides(project))
    project.repo.write("edited.txt", "both\n")
    project.repo.git("add", "edited.txt")


def mistaken_case(project: Project) -> None:
    project.repo.git("config", "core.ignoreCase", "true")


def name_of_git(project: Project) -> None:
    project.repo.write(".GIT/x", "no tree may hold this\n")


def path_too_long(project: Project) -> None:
    here = os.open(project.repo.root, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("y" * 200, dir_fd=here)
        inner = os.open("y" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def owned_by_somebody_else(project: Project) -> None:
    wrap_git(project, "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")


def no_room_left(project: Project) -> None:
    project.repo.write("noise.bin", os.urandom(4 << 20))
    wrap_git(project, "ulimit -f 1000")


WORKS: dict[str, Build] = {
    "clean": lambda _: None,
    "dirty": dirty,
    "large-file-filter": large_file_filter,
    "line-endings-by-configuration": line_endings_by_configuration,
    "line-endings-by-attribute": line_endings_by_attribute,
    "encodings": encodings,
    "identity-marks": identity_marks,
    "bogus-git-file": bogus_git_file,
    "links-and-modes": links_and_modes,
    "modes-do-not-count": modes_do_not_count,
    "links-are-files": links_are_files,
    "odd-files": odd_files,
    "files-and-folders-swapped": files_and_folders_swapped,
    "shallow-clone": shallow_clone,
    "shared-objects": shared_objects,
    "replaced-commit": replaced_commit,
    "settings-of-the-worktree": settings_of_the_worktree,
    "linked-worktree": linked_worktree,
    "separate-folder": separate_folder,
    "working-tree-by-configuration": working_tree_by_configuration,
    "detached": detached,
    "bisecting": bisecting,
    "announced-file": announced_file,
    "ignore-rules-everywhere": ignore_rules_everywhere,
    "ignore-rules-of-home": ignore_rules_of_home,
    "hostile-names": hostile_names,
    "other-capitals": other_capitals,
    "locked-index": locked_index,
    "split-index": split_index,
    "index-of-another-form": index_of_another_form,
    "nobody-and-signed": nobody_and_signed,
    "long-path": long_path,
    "same-second-edits": same_second_edits,
}
NOTICED: dict[str, Noticed] = {
    "submodule": Noticed(submodule, "empty folders: lib"),
    "submodule-with-new-commit": Noticed(submodule_with_new_commit, "empty folders: lib"),
    "submodule-not-initialised": Noticed(submodule_not_initialised, "empty folders: lib"),
    "submodule-edited": Noticed(submodule_edited, "changes inside submodule lib are left out"),
    "submodule-that-asks-to-be-ignored": Noticed(
        submodule_that_asks_to_be_ignored, "changes inside submodule lib are left out"
    ),
    "submodule-absent": Noticed(
        submodule_absent, "the folder of submodule lib is absent", differs=True
    ),
    "nested-with-commit": Noticed(
        nested_with_commit, "nested/ is a repository of its own and is left out", differs=True
    ),
    "nested-without-commit": Noticed(
        nested_without_commit, "nested/ is a repository of its own and is left out", differs=True
    ),
    "sparse": Noticed(sparse, "the same part of a sparse checkout"),
    "sparse-index": Noticed(sparse_index, "the same part of a sparse checkout"),
    "partial-clone": Noticed(partial_clone, "this is a partial clone and nothing is fetched"),
    "hidden-edit": Noticed(hidden_edit, "assumed unchanged or to be skipped: edited.txt"),
    "skipped-edit": Noticed(skipped_edit, "assumed unchanged or to be skipped: edited.txt"),
    "skipped-and-absent": Noticed(skipped_and_absent, "outside of it 1 paths stay"),
    "big-file": Noticed(big_file, "big.bin is 100 MiB"),
}
REFUSED: dict[str, Refused] = {
    "failing-filter": Refused(failing_filter, "clean filter 'broken' failed"),
    "other-object-ids": Refused(other_object_ids, "only sha1 is supported"),
    # A Git that does not know the format fails; one that does leaves the refusal to pinata.
    "other-ref-format": Refused(
        extension("refStorage", "reftable"),
        "cannot read the repository|keeps its refs in another format than files",
    ),
    "unknown-extension": Refused(
        extension("inventedTomorrow", "true"), "cannot read the repository"
    ),
    "bare": Refused(bare, "has no working tree"),
    "unborn": Refused(unborn, "has no commit yet"),
    "unmerged": Refused(unmerged, "these paths are unmerged: edited.txt"),
    "merge": Refused(merge_with_all_resolved, "a merge is in progress"),
    "rebase": Refused(rebase_under_way, "a rebase is in progress"),
    "cherry-pick": Refused(cherry_pick_under_way, "a cherry-pick is in progress"),
    "mistaken-case": Refused(mistaken_case, "run: git config core.ignoreCase false"),
    "name-of-git": Refused(name_of_git, "Ignoring path .GIT/x"),
    "path-too-long": Refused(path_too_long, "could not open directory", reachable=False),
    "owned-by-somebody-else": Refused(owned_by_somebody_else, "somebody else owns it"),
    "no-room-left": Refused(no_room_left, "was ended by a signal"),
}
