"""Pure values and decisions: nothing in here reads, writes or waits."""
