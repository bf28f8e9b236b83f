"""Selection: real clips that stand for their class."""
