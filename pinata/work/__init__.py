"""What a run is made of: this package joins Git, checks and agents."""
