"""Condensation: one loop; method, objective and insertion rule are parts (docs/method.md, docs/extending.md)."""
