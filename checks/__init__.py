"""Commands that prove things: they are run without a shell, and what they showed is kept."""
