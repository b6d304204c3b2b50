"""Who does the work: definitions, briefs, tools, models and the loop that joins them."""
