"""Artifacts: every noun that is saved, from a clip to a result. Each validates, saves and loads itself."""
