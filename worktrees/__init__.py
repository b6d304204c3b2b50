"""Git: the only package that starts the git program or speaks to libgit2."""
