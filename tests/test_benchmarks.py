"""The benchmarks run, and measure what they say: our work in the peers' loop, every multiply-add."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.__main__ import BENCHMARKS
from benchmarks.accuracy import EMPTY, FILLED, PEERS, Point, verdicts
from benchmarks.measure import GOAL, QUICK, Sizes, Spread, ratios
from benchmarks.peers import PeersLoop, PeersNetwork
from benchmarks.table import GOALS, GPU, Goal, fallen, kept_in, markdown, reached, rows
from prism.artifacts.clips import to_model_input
from prism.condensation.objectives import DistributionMatching
from prism.condensation.random_networks import Chunk
from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.initial import initialise

ROOT = Path(__file__).resolve().parent.parent


def run(module: str, *options: object) -> None:
    """Run a benchmark at its smallest sizes."""
    command = [sys.executable, "-m", module, "--quick", *map(str, options)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_every_benchmark_runs_and_writes_its_figures_with_their_provenance(tmp_path):
    run("benchmarks", "--repeats", "1", "--output", tmp_path)
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert found.keys() == {*BENCHMARKS, "table"}
    for content in found.values():
        assert {"processor", "threads", "commit", "torch"} <= content["provenance"].keys()
        assert content["sizes"]["repeats"] == 1
        assert content["figures"]
    # Every label that the table asks for is one that a benchmark has written.
    measured = [row for row in found["table"]["figures"] if "GPU" not in row["goal"]]
    assert len(measured) == len([goal for goal in GOALS if goal.benchmark != GPU])
    assert all(row["ratio or share"] != "–" for row in measured)
    assert {"yes (other sizes)", "no (other sizes)"} >= {row["reached?"] for row in measured}
    assert found["table"]["provenance"]["commit"] in (tmp_path / "table.md").read_text()


def test_the_benchmark_of_a_gpu_has_the_figures_that_its_goals_name():
    figures = gpu.measure(replace(QUICK, repeats=1), torch.device("cpu"), matrix=8)
    assert {goal.figure for goal in GOALS if goal.benchmark == GPU} <= figures.keys()


def test_the_page_has_the_table_of_the_kept_figures():
    kept = kept_in([*(ROOT / "results/bench").glob("*.json"), ROOT / "results/gpu/benchmark.json"])
    assert markdown(rows(kept, GOAL)) in (ROOT / "docs/performance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("median", "verdict"), [(2.49, "no"), (2.5, "yes"), (9.0, "yes")])
def test_the_median_decides_whether_a_goal_is_reached(median, verdict):
    goal, found = Goal("twice", "peers", "ratio", least=2.5), {"median": median, "smallest": 0.1, "largest": 99.0}
    assert reached(goal, found, Sizes()) == verdict
    assert reached(goal, found, replace(Sizes(), repeats=1, clock="process", threads=1)) == verdict
    assert reached(goal, found, replace(Sizes(), width=16)) == f"{verdict} (other sizes)"


@pytest.mark.parametrize(("smallest", "largest", "has_fallen"), [(1.0, 2.4, True), (1.0, 2.5, False)])
def test_a_goal_has_fallen_back_where_not_even_the_best_turn_reaches_it(smallest, largest, has_fallen):
    spread = {"median": 1.5, "smallest": smallest, "largest": largest, "repeats": 3}
    figures = {"peers": {"ratio in bfloat16": spread, "ratio in float32": spread}, "growth": {}}
    assert fallen(figures, Sizes()) == ["an iteration in bfloat16: 2.5 times as fast as the peers'"] * has_fallen
    assert fallen(figures, replace(Sizes(), width=16)) == []
    overhead = {"overhead": {"fresh, together, %": spread | {"smallest": smallest + 2.5}}}
    assert len(fallen(overhead, Sizes())) == 1


def test_the_race_times_every_set_and_scores_those_of_the_peers_loop_as_its_iterations_pass(tmp_path, store):
    output = tmp_path / "race.json"
    run("benchmarks.accuracy", "--store", store.path, "--output", output)
    figures = json.loads(output.read_text())["figures"]
    assert figures[f"{PEERS}, 0 iterations"]["seconds"] == 0 < figures[f"{PEERS}, 2 iterations"]["seconds"]
    for who in (EMPTY, FILLED):
        assert all(figures[f"{who}, {n} iterations"]["accuracy"] >= 0 for n in (1, 2))
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("seconds", "sooner", "said"), [(5.0, 20.0, "yes"), (5.1, 100 / 5.1, "no")])
def test_sooner_is_the_peers_whole_run_by_the_first_of_our_runs_that_is_as_good(seconds, sooner, said):
    peers = {(PEERS, 10): Point(10, 40, 3), (PEERS, 300): Point(100, 30, 3)}
    ours = {(EMPTY, 25): Point(1, 29.9, 3), (EMPTY, 50): Point(seconds, 30, 3), (EMPTY, 99): Point(9, 50, 3)}
    found = verdicts(peers | ours)
    assert found[f"{EMPTY}: times sooner"] == sooner
    assert found[f"{EMPTY}: at least 20"] == said
    assert found[f"{FILLED}: at least 60"] == "no"


def test_the_peers_loop_has_the_losses_and_gradients_of_ours(store):
    peers = PeersLoop(store, QUICK)
    network = build("convnet3d", num_classes=2, num_frames=store.num_frames, size=store.size, width=2)
    initialise(network, generator(0, "network"))
    network.eval().requires_grad_(False)
    batches = [positions[:2] for positions in peers.of_class]
    losses = peers.losses(network.embed, batches)
    (gradient,) = torch.autograd.grad(losses.sum(), peers.syn)

    clips = store.clips("train")
    shown = to_model_input(clips.frames[torch.cat(batches)], store.normalisation)
    real = network.embed(shown).view(2, 2, -1).mean(dim=1)
    found = DistributionMatching().match(network, real, peers.syn.transpose(1, 2), Chunk(64))
    ours, our_gradient = found.losses, found.gradients
    torch.testing.assert_close(losses.detach(), ours)
    torch.testing.assert_close(gradient, our_gradient.transpose(1, 2), rtol=1e-4, atol=1e-7)


def test_the_peers_network_is_convnet3d(store):
    ours = build("convnet3d", num_classes=2, num_frames=store.num_frames, size=store.size, width=2)
    initialise(ours, generator(0, "network"))
    peers = PeersNetwork(width=2)
    peers.load_state_dict({name: value for name, value in ours.state_dict().items() if name.startswith("blocks")})
    clips = to_model_input(store.clips("train").frames, store.normalisation)
    torch.testing.assert_close(peers(clips), ours.embed(clips))


def test_multiply_adds_are_counted_by_hand():
    found = gpu.embedding_macs(build("convnet3d", "meta", num_classes=10, num_frames=16, size=112))
    layers = 64 * 16 * 56**2 * 3 * 147, 128 * 16 * 14**2 * 64 * 147, 128 * 8 * 4**2 * 128 * 147
    assert found == sum(layers) == 5_500_895_232  # the 1×1×1 classifier takes no part in an embedding


def test_ratios_are_taken_turn_by_turn():
    assert ratios([2.0, 40.0, 9.0], [1.0, 10.0, 3.0]) == Spread(3.0, 2.0, 4.0, 3)
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])
