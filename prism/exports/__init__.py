"""Exports: a condensed set in the formats that other tools read, with a card that describes it."""
