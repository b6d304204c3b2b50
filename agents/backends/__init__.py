"""What runs an agent's loop: this process today, a Pi child or a pane in a later release."""
