"""What a type checker says of the options of the verbs; `make check` reads this file, and nothing runs it.

A line is wrong where it is ignored, and a checker that finds no mistake there says so.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import prism
from prism.condensation.rules import GradientConflict

condensed = prism.condense("store", vpc=5, insertion=GradientConflict(epsilon=0.1), output="set.safetensors")
assert_type(condensed, prism.CondensedSet)
assert_type(prism.evaluate(condensed, "store", model="cnn-gru", workers=2), prism.Result)
assert_type(prism.load("videos", num_frames=8, in_memory=True), prism.VideoDataset)

prism.condense("store", vpcs=5)  # pyright: ignore[reportCallIssue]
prism.condense("store", vpc="five")  # pyright: ignore[reportArgumentType]
prism.condense("store", decay="linear")  # pyright: ignore[reportArgumentType]
prism.condense()  # pyright: ignore[reportCallIssue]
prism.evaluate(condensed, "store", split="tets")  # pyright: ignore[reportArgumentType]
prism.select("store", vpc=1, takes=2.5)  # pyright: ignore[reportArgumentType]
prism.ingest("videos", "store", sizes=64)  # pyright: ignore[reportCallIssue]
prism.load("videos", num_frame=8)  # pyright: ignore[reportCallIssue]
