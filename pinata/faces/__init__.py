"""Ways in: each face turns a request from outside into a tool call and its answer into text."""
