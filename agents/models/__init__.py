"""Where an agent's answers come from: one module per provider, behind one port."""
