"""A stand-in for GitHub: a repository on this machine, and a `gh` that is a shell script."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from engine.core.ids import CommitId
from tests.support.repos import RepoBuilder

ADDRESS = "https://github.com/example/shop.git"
PAGE = "https://github.com/example/shop/pull"
NUMBER = 7


@dataclass(frozen=True, slots=True)
class Github:
    """What a checkout takes for GitHub.

    Attributes:
        repo: the checkout, whose remote `origin` has the public address.
        upstream: what its Git is led to instead; pull request 7 is there.
        folder: before all others on the checkout's PATH; `gh` lies there.
    """

    repo: RepoBuilder
    upstream: RepoBuilder
    folder: Path

    @classmethod
    def open(cls, repo: RepoBuilder, folder: Path) -> "Github":
        """Make the repository, the pull request and the program beside `repo`."""
        upstream = RepoBuilder(folder / "upstream", repo.env)
        programs = folder / "programs"
        programs.mkdir()
        repo.git("clone", "--quiet", str(repo.root), str(upstream.root))
        repo.env["PATH"] = f"{programs}{os.pathsep}{repo.env['PATH']}"
        repo.git("remote", "add", "origin", ADDRESS)
        repo.git("config", f"url.{upstream.root}.insteadOf", ADDRESS)
        hub = cls(repo, upstream, programs)
        upstream.git("checkout", "--quiet", "-b", "feature")
        upstream.write("a.txt", "pulled\n")
        upstream.write("new.txt", "new\n")
        hub.push()
        return hub

    def push(self, message: str = "a feature") -> CommitId:
        """Commit what is in the upstream's files as the pull request's head, and let gh say so."""
        head = self.upstream.commit(message)
        self.upstream.git("update-ref", f"refs/pull/{NUMBER}/head", head)
        self.answers()
        return head

    @property
    def head(self) -> CommitId:
        """The pull request's head."""
        return CommitId(self.upstream.ask("rev-parse", f"refs/pull/{NUMBER}/head"))

    def answers(self, **fields: object) -> None:
        """Let gh answer with metadata that fits, but for `fields`."""
        said = {
            "number": NUMBER,
            "title": "Round halves up",
            "url": f"{PAGE}/{NUMBER}",
            "headRefOid": self.head,
            "baseRefName": "main",
        }
        (self.folder / "answer.json").write_text(json.dumps(said | fields))
        self.does(f"cat {self.folder}/answer.json")

    def does(self, script: str) -> None:
        """Let gh be `script`; its arguments and environment are written down before."""
        program = self.folder / "gh"
        program.write_text(
            f'#!/bin/sh\necho "$*" > {self.folder}/arguments\n'
            f"env > {self.folder}/environment\n{script}\n"
        )
        program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What gh was started with."""
        lines = (self.folder / "environment").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    @property
    def arguments(self) -> str:
        """What gh was asked."""
        return (self.folder / "arguments").read_text().rstrip("\n")
