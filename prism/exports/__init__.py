"""Exports: a condensed set in the formats that other tools read, with a page that describes it."""
