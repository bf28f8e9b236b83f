"""Reproduction: the paper's tables and figures, each as one command that runs what is missing.

It stands above the verbs: it calls them one after the other, and they meet in files as ever.
"""
