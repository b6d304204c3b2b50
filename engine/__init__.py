"""The core of pinata: what a run is and how it advances. It knows no Git, no model and no agent."""
