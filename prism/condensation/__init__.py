"""Condensation: one loop; objective, insertion rule and parametrisation are parts (see docs/method.md)."""
