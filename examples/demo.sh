#!/usr/bin/env bash
# Pinata on a small project, from a failing test to reviewed changes in the checkout and back.
# Everything happens in a temporary folder, which is removed at the end.
set -euo pipefail

fixtures=$(cd "$(dirname "${BASH_SOURCE[0]}")/../fixtures/demo" && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/pinata-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# Nothing of the person at the keyboard is read or written: no Git settings, no agents, no state.
export HOME="$scratch/home" XDG_STATE_HOME="$scratch/state" PI_CODING_AGENT_DIR="$scratch/pi"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat
export GIT_AUTHOR_NAME=Robin GIT_AUTHOR_EMAIL=robin@example.com
export GIT_COMMITTER_NAME=Robin GIT_COMMITTER_EMAIL=robin@example.com

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

say() {
  printf '\n'
  printf '%s\n' "$@"
}
announce() {
  local word line='$'
  for word in "$@"; do
    case $word in *' '*) word="\"$word\"" ;; esac
    line+=" $word"
  done
  printf '\n%s%s%s\n' "$bold" "$line" "$plain"
}
show() {
  announce "$@"
  "$@"
}

mkdir "$HOME"
cp -R "$fixtures/." "$scratch"
cd "$scratch/project"
git init --quiet --initial-branch=main
git add .
git commit --quiet --message 'The till of a corner shop'

say "A corner shop's till gives too little discount. This is its test:"
announce python3 -m unittest tests.test_discount
{ python3 -m unittest tests.test_discount 2>&1 || true; } | grep -E '^(AssertionError|FAILED)'

say "You are in the middle of something yourself. This edit is not committed:"
sed -i.orig 's/^TITLE = .*/TITLE = "Corner Shop, 5 High Street"/' basket/receipt.py
rm basket/receipt.py.orig
show git diff --unified=0

say "Six agents get to work: two look, two build, and each builder's change is reviewed." \
  "(The agents are scripted: what they say is in fixtures/demo/script.yaml. Their tools, the tests" \
  "and everything that pinata does with their work are real.)"
show pinata run ../job.json || true
run=$(pinata status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["run"])')

say "The tests pass, but the reviewer saw what they do not try, and what needs the fix has to wait." \
  "Hand the finding back: the builder mends its change, and it is reviewed anew."
show pinata repair "$run" fix --feedback "Round to the nearest cent: 10 % of 0.11 is 0.01."

say "So far your checkout is as you left it. The changes wait, checked and reviewed; look at any time:"
show git status --short
show pinata status "$run" --offset 4

say "Apply them. Your own edit stays, and nothing is staged or committed:"
show pinata integrate "$run"
show git diff

say "Changed your mind? Every file goes back to what it was, your own edit included:"
show pinata rollback "$run" --confirm
show git diff --unified=0
