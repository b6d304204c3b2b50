"""The herd: managed agents, their mailboxes, and both sides that meet there, owner and member."""
