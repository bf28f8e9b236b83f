"""The loop, its telemetry and its checkpoints: the method, and that no kill changes a byte of its outcome."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from settings import CPU, PAPER, load_telemetry, refusal_of, setup_of, threads, wait_for
from settings import started as started_with

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.sparse import Yuv420
from prism.artifacts.keyframes import render
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import telemetry_path
from prism.condensation import prepare, recorder
from prism.condensation.condense import check_finite, condense, finished_set
from prism.condensation.loop import Condensation, Step
from prism.condensation.options import RULES, CondenseConfig
from prism.condensation.recorder import checkpoint_path
from prism.condensation.rules import InsertionRule
from prism.condensation.static_dynamic import StaticDynamic
from prism.condensation.videos import KeyFrames, KeyFrameVideos, initial_mask
from prism.errors import ArtifactError, ConfigError, DivergedError, EngineError, OutputError
from prism.machine.provenance import versions
from prism.machine.randomness import generator
from prism.selection.select import select
from tests.condensation.test_custom_parts import Grey

TINY = PAPER | {"width": 4, "batch_real": 2, "iterations": 8, "static_iterations": 2}
"""A run of a tenth of a second."""


def run_tiny(store: ClipStore, output: Path | None = None, **options: object) -> CondensedSet:
    return condense(store, output=output, device="cpu", **(TINY | options))  # type: ignore[arg-type]


def started(store: ClipStore, **options: object) -> Condensation:
    return started_with(store, **(TINY | options))


def first_videos(store: ClipStore, classes: range = range(2), **options: object) -> KeyFrameVideos:
    config = CondenseConfig(**(TINY | options))  # type: ignore[arg-type]
    return KeyFrames().start(store, config, CPU, classes)


def test_noise_starts_as_standard_normal_keyframes_at_both_ends(store):
    videos = first_videos(store, vpc=3)
    assert videos.mask.tolist() == [[True] + [False] * 6 + [True]] * 6
    drawn = videos.frames[videos.mask]
    # 6 videos of 2 frames: 82,944 values, so the mean errs by 0.0035 and the deviation by 0.0025.
    assert drawn.mean().abs() < 0.02
    assert abs(drawn.std() - 1) < 0.02


def test_real_starts_as_frames_of_different_training_clips_of_the_videos_class(store):
    videos = first_videos(store, init="real", vpc=3, initial_keyframes=8)
    real = store.clips("train")
    pixels = (store.normalisation.invert(videos.render()) * 255).round().to(torch.uint8)
    found = [[i for i in range(len(real)) if torch.equal(real.frames[i], clip)] for clip in pixels]
    assert all(len(where) == 1 for where in found)
    assert len({where[0] for where in found}) == 6
    assert [int(real.labels[where[0]]) for where in found] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("flip", [False, True])
def test_mean_starts_as_the_mean_of_all_clips_of_a_class_and_of_mirror_images_that_keep_labels(make_store, flip):
    store = make_store(flip=flip)
    videos = first_videos(store, init="mean", vpc=1, initial_keyframes=8)
    clips = store.clips("train")
    means = torch.stack([as_pixels(clips.frames[clips.labels == label]).mean(dim=0) for label in (0, 1)])
    both = (means + means.flip(-1)) / 2 if store.flip else means
    torch.testing.assert_close(store.normalisation.invert(videos.render()), both, atol=1e-5, rtol=0)


def test_the_videos_of_a_class_share_its_clips_out_among_their_means_of_so_many_at_most(store, monkeypatch):
    one = first_videos(store, init="mean", vpc=1, initial_keyframes=8).render()
    two = first_videos(store, init="mean", vpc=2, initial_keyframes=8).render()
    assert len({tuple(video.flatten().tolist()) for video in two}) == 4
    # Shares of equal size: their mean is that of the class.
    assert store.counts("train").tolist() == [4, 4]
    torch.testing.assert_close(two.unflatten(0, (2, 2)).mean(dim=1), one, atol=1e-5, rtol=0)
    monkeypatch.setattr("prism.condensation.videos.MEAN_OF", 2)
    assert torch.equal(two[::2], first_videos(store, init="mean", vpc=1, initial_keyframes=8).render())


@pytest.mark.parametrize("init", ["noise", "real", "mean"])
def test_sets_of_other_seeds_start_from_other_videos(store, init):
    one, other = (first_videos(store, init=init, vpc=2, seed=seed).render() for seed in (1, 2))
    assert not torch.equal(one, other)


def test_videos_start_as_those_of_a_set_and_the_record_names_its_method_but_no_path(store, tmp_path):
    chosen, path = select(store, method="herding", vpc=2, width=4, epochs=0), tmp_path / "herding"
    chosen.save(path)
    given = {"init": str(path), "vpc": 2, "initial_keyframes": 8, "insertion": "never"}
    made = run_tiny(store, iterations=0, **given)
    torch.testing.assert_close(made.render(), chosen.render(), atol=1e-6, rtol=0)
    assert not first_videos(store, init=str(path)).frames.any()
    assert made.source["config"]["init"].startswith("herding ")
    assert made.source["init"] == chosen.fingerprint
    assert str(tmp_path).encode() not in made.to_bytes()
    # Those of its own classes, whichever are condensed.
    second = started_with(store, range(1, 2), **(TINY | given)).videos
    torch.testing.assert_close(store.normalisation.invert(second.render()), chosen.render()[2:], atol=1e-5, rtol=0)


def test_videos_as_small_as_those_of_a_set_start_as_these_to_the_last_bits(store, tmp_path):
    options = {"keyframe_scale": 2, "initial_keyframes": 2, "insertion": "never", "iterations": 0}
    made = run_tiny(store, **options, init="noise")
    made.save(tmp_path / "set")
    again = run_tiny(store, **options, init=str(tmp_path / "set"))
    torch.testing.assert_close(again.render(), made.render(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("learnable", [False, True])
def test_key_frames_of_a_set_that_no_video_starts_with_are_counted(store, tmp_path, capfd, learnable):
    select(store, output=tmp_path / "8")
    run_tiny(store, tmp_path / "5", init="mean", initial_keyframes=5, insertion="never", iterations=0)
    by_place = {"even": [(5, 2, 6), (5, 6, 4), (5, 5, 0), (5, 0, 0), (8, 2, 0)], "error": [(5, 2, 6), (5, 5, 0)]}
    for given, num, lost, place in ((*case, place) for place, cases in by_place.items() for case in cases):
        how = {"initial_keyframes": num, "placement": place, "fully_learnable": learnable}
        run_tiny(store, **how, init=tmp_path / str(given), insertion="never", iterations=0)
        assert (f"{lost} of the 10 key-frames of" in capfd.readouterr().err) == bool(lost)


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_key_frames_are_counted_where_the_run_places_them(store, tmp_path, capfd, scale):
    for seed in range(4):
        how = {"insertion": "never", "iterations": 0, "vpc": 2, "seed": seed, "placement": "budget"}
        given = run_tiny(store, tmp_path / str(seed), **how, init="real", initial_keyframes=4, keyframe_scale=4)
        how |= {"init": tmp_path / str(seed), "initial_keyframes": 3, "keyframe_scale": scale}
        lost = int((given.mask & ~run_tiny(store, **how).mask).sum())
        assert f"{lost} of the 16 key-frames of" in capfd.readouterr().err


def test_a_set_that_no_video_can_start_as_is_refused(make_store, tmp_path):
    store, path = make_store(), tmp_path / "set"
    select(store, output=path)
    with pytest.raises(ConfigError, match=r"'meen', but .* mean, noise, real, or .* Did you mean 'mean'\?$"):
        run_tiny(store, init="meen")
    with pytest.raises(ConfigError, match=r"has 2 videos of 2 classes, but --vpc 2 starts from 2 of each"):
        run_tiny(store, init=str(path), vpc=2)
    assert "made of other clips than" in refusal_of(ConfigError, run_tiny, make_store(seed=1), init=str(path))
    select(store, output=path, takes=2, overwrite=True)
    with pytest.raises(ConfigError, match=r"a video of .* stands for several clips, so no video can start as it"):
        run_tiny(store, init=path, vpc=2)
    assert "is a clip store, not a condensed set" in refusal_of(ArtifactError, run_tiny, store, init=store.path)
    mirrored = CondensedSet.from_clips(store.clips("train"), store, method="other")
    replace(mirrored, classes=mirrored.classes[::-1]).save(path)
    assert "made of other clips than" in refusal_of(ConfigError, run_tiny, store, init=path, vpc=4)


def test_a_set_that_videos_start_as_is_not_written_over(store, output):
    select(store, output=output)
    assert "is what is read" in refusal_of(OutputError, run_tiny, store, output, init=output, overwrite=True)


def test_sets_begun_from_choices_of_other_seeds_are_one_group_and_those_of_other_options_are_not(store, tmp_path):
    starts = list[str]()
    for number, options in enumerate([{"seed": 0}, {"seed": 1}, {"storage": "float16"}]):
        select(store, output=tmp_path / str(number), **options)
        starts.append(run_tiny(store, init=tmp_path / str(number), iterations=0).source["config"]["init"])
    assert starts[0] == starts[1] != starts[2]


def test_a_run_from_a_set_that_has_changed_is_another_one(store, tmp_path):
    path, output = tmp_path / "set", tmp_path / "out"
    select(store, output=path)
    run_tiny(store, output, init=str(path))
    assert run_tiny(store, output, init=str(path), resume=True) == CondensedSet.load(output)
    select(store, output=path, seed=1, overwrite=True)
    said = refusal_of(ArtifactError, run_tiny, store, output, init=str(path), resume=True)
    assert re.search(r"belongs to another run: its .*init is '[0-9a-f]{12}", said)


def test_fully_learnable_starts_as_the_same_clip_with_every_frame_trainable(store, tmp_path):
    select(store, output=tmp_path / "set")
    for init in ("mean", str(tmp_path / "set")):
        sparse, learnable = (started(store, init=init, fully_learnable=f).videos for f in (False, True))
        assert learnable.mask.all()
        torch.testing.assert_close(learnable.render(), sparse.render())


def test_real_clips_may_have_their_keyframes_where_interpolation_errs_least(store, tmp_path):
    options = {"iterations": 0, "vpc": 2, "initial_keyframes": 3, "keyframe_scale": 1, "insertion": "never"}
    select(store, vpc=2, output=tmp_path / "set")
    clips = CondensedSet.load(tmp_path / "set").render()
    even, placed = (run_tiny(store, init=str(tmp_path / "set"), placement=p, **options) for p in ("even", "error"))
    assert placed.num_keyframes == even.num_keyframes == 12
    assert (placed.render() - clips).square().sum() < (even.render() - clips).square().sum()
    drawn = first_videos(store, init="real", placement="error", vpc=2, initial_keyframes=3)
    assert not drawn.mask.equal(first_videos(store, init="real", vpc=2, initial_keyframes=3).mask)


def test_a_budget_of_keyframes_goes_to_classes_that_are_alike_and_needs_to_see_them_all(store):
    motion = torch.rand(8, 3, 4, 4)
    # The first has the largest errors, and the means of the others are the nearest; their first clips are not.
    clips = torch.stack([30 * motion] * 2 + [motion + shift for shift in (29, -11, -10.9, 29.1)])
    mask = initial_mask(clips, torch.arange(3).repeat_interleave(2), 3, "budget")
    assert (int(mask[:2].sum()), int(mask.sum())) == (4, 18)
    assert run_tiny(store, iterations=0, placement="budget", initial_keyframes=3).num_keyframes == 6
    assert not setup_of(store, placement="budget", initial_keyframes=3).independent_classes


class Coarse(Yuv420):
    """A custom storage like `yuv420`."""


@pytest.mark.parametrize("storage", ["yuv420", Coarse()])
def test_coarse_colour_is_trained_as_it_is_stored_in_half_of_the_numbers(store, storage):
    options = {"storage": storage, "init": "real", "insertion": "never", "lr": 0.3}
    run = started(store, **options)
    for _ in range(2):
        run.step()
    source, whole = {"method": "prism"}, started(store, **(options | {"storage": "float32"}))
    made, exact = (
        finished_set(setup_of(store, **(TINY | options | {"storage": name})), of, source)
        for name, of in ((storage, run), ("float32", whole))
    )
    clips = store.normalisation.invert(run.videos.render().detach())
    # Half a level of luma and of chroma, of pictures whose values spread over little more than 0..1.
    torch.testing.assert_close(made.render(), clips, atol=0.02, rtol=0)
    assert made.float32_bytes * 2 == exact.float32_bytes


def gradient_of_the_paper(run: Condensation) -> torch.Tensor:
    """The gradient of equation 8 at the key-frames, straight through rendering and network."""
    network, real = run.networks.draw(run.iteration), run.networks.class_means(run.iteration)
    frames = run.videos.frames.detach().clone().requires_grad_()
    embeddings = network.embed(render(frames, run.videos.mask).transpose(1, 2))
    means = embeddings.unflatten(0, (len(real), run.config.vpc)).mean(dim=1)
    (gradient,) = torch.autograd.grad((real - means).square().sum(), frames)
    return gradient


def test_the_keyframes_move_as_sgd_with_momentum_by_hand(store):
    run = started(store, vpc=2, lr=0.3, momentum=0.9, insertion="never")
    frames, velocity = run.videos.frames.detach().clone(), torch.zeros_like(run.videos.frames)
    for _ in range(4):
        velocity = 0.9 * velocity + gradient_of_the_paper(run)
        frames -= 0.3 * velocity
        run.step()
        torch.testing.assert_close(run.videos.frames.detach(), frames, rtol=1e-4, atol=1e-5)


def test_all_insertions_of_an_iteration_are_judged_on_the_keyframes_as_they_stood(store):
    # With ε = 1 every candidate qualifies. Judged one by one on the growing set, neighbours of a new
    # key-frame would be compared with it; judged together, all see the two ends only.
    run = started(store, epsilon=1.0, warmup=0.0, metric="clip")
    before, step = run.videos.mask.clone(), run.step()
    assert int(step.inserted.sum()) == 12
    assert torch.equal(run.videos.mask, before | step.inserted)
    momentum = run.optimizer.momentum_buffers[run.videos.frames]
    torch.testing.assert_close(momentum, render(momentum, before))


def conflicting_run(store: ClipStore, **options: object) -> Condensation:
    """A run in which some candidates conflict and others do not."""
    return started(store, epsilon=0.02, warmup=0.0, cooldown=0.0, iterations=30, vpc=2, **options)


def test_inserting_changes_neither_the_clip_nor_what_momentum_holds(store):
    run, inserted = conflicting_run(store), 0
    for _ in range(10):
        run.step()
        mask, clips = run.videos.mask.clone(), run.videos.render().detach()
        velocity = run.optimizer.momentum_buffers[run.videos.frames].clone()
        new = ~mask & (torch.rand(mask.shape, generator=torch.Generator().manual_seed(run.iteration)) < 0.2)
        run.videos.insert(new)
        inserted += int(new.sum())
        torch.testing.assert_close(run.videos.render().detach(), clips, rtol=0, atol=1e-5)
        assert torch.equal(run.optimizer.momentum_buffers[run.videos.frames], velocity)
        assert (velocity[new] == 0).all()
    assert inserted > 5


def test_a_new_keyframe_moves_first_by_its_own_gradient_without_momentum(store):
    run = conflicting_run(store)
    old = run.videos.mask.clone()
    while torch.equal(run.videos.mask, old):
        run.step()
    new = run.videos.mask & ~old
    gradient, before = gradient_of_the_paper(run), run.videos.frames.detach().clone()
    run.step()
    torch.testing.assert_close((run.videos.frames.detach() - before)[new], -gradient[new], rtol=1e-3, atol=1e-6)


def test_random_insertion_is_drawn_anew_in_every_iteration(store):
    # Only frame 1 conflicts, so one frame of each video is inserted, wherever the draw falls.
    gradients = torch.ones(2, 8, 3, 48, 48)
    gradients[:, 1] = -1
    # What all frames share is too fine for key-frames of half the size, and hides no conflict.
    gradients += 5 * torch.tensor([1.0, -1.0]).repeat(24)
    drawn, options = set(), {"insertion": "random", "keyframe_scale": 2}
    for iteration in range(20):
        run = started(store, iterations=20, warmup=0.0, cooldown=0.0, **options)
        run.iteration = iteration
        where = [frame for _, frame in run.insert(gradients)[1].nonzero().tolist()]
        assert len(where) == 2
        drawn.add(tuple(where))
    assert len(drawn) > 5


def test_half_size_keyframes_are_trained_through_what_they_render_to(store):
    videos = first_videos(store, keyframe_scale=2)
    clips = videos.render(0)
    assert clips.shape[3:] == store.size
    target = torch.randn(clips.shape, generator=generator(0, "target"))
    (gradient,) = torch.autograd.grad((clips * target).sum(), videos.trainable[0].tensors)
    # The sum of a product with a linear rendering: its gradient is the same however far the step.
    step = torch.randn(gradient.shape, generator=generator(0, "step"))
    with torch.no_grad():
        videos.trainable[0].tensors[0] += step
        slope = ((videos.render(0) - clips) * target).sum()
    assert float((gradient * step).sum()) == pytest.approx(float(slope), rel=1e-3)


def recorded(output: Path, kind: str) -> list[dict]:
    return load_telemetry(telemetry_path(output))[kind]


@pytest.mark.parametrize("insertion", ["gradient", "random", "l2"])
def test_a_run_inserts_neither_in_warm_up_nor_in_cool_down(store, output, insertion):
    schedule = {"iterations": 20, "warmup": 0.3, "cooldown": 0.25}
    run_tiny(store, output, insertion=insertion, epsilon=0.03, vpc=2, **schedule)
    when = [event["iteration"] for event in recorded(output, "insertion")]
    assert 6 <= min(when) <= max(when) < 15
    counts = [step["keyframes"] for step in recorded(output, "step")]
    assert counts[:6] == [2.0] * 6
    assert counts[14:] == [counts[-1]] * 6


def test_every_inserted_frame_had_both_cosines_below_epsilon_and_was_no_keyframe(store, output):
    condensed = run_tiny(store, output, vpc=2, iterations=20, epsilon=0.2)
    events = recorded(output, "insertion")
    assert events
    assert 0.05 < max(max(event["cosines"]) for event in events) < 0.2
    inserted = {(event["video"], event["frame"]) for event in events}
    assert len(inserted) == len(events)
    ends = {(video, frame) for video in range(4) for frame in (0, 7)}
    assert inserted | ends == {tuple(where) for where in condensed.mask.nonzero().tolist()}


def test_telemetry_tells_the_whole_run(store, output):
    condensed = run_tiny(store, output)
    telemetry = load_telemetry(telemetry_path(output))
    (start,), (end,) = telemetry["start"], telemetry["end"]
    assert start["config"] == condensed.source["config"]
    assert {"host", "date", "torch", "store"} <= start.keys()
    assert [step["iteration"] for step in recorded(output, "step")] == list(range(8))
    assert all(step["loss"] > 0 and step["between_class"] > 0 for step in recorded(output, "step"))
    assert end["keyframes"] == condensed.keyframe_counts.tolist()


STAGED = {"method": "static-dynamic", "dynamic_lr": 100.0}
VARIANTS: dict[str, dict[str, object]] = {
    **{f"insertion {name}": {"insertion": name} for name in RULES.registry},
    "a relative rate that falls": {"lr": 0.0, "relative_lr": 0.3, "decay": "cosine"},
    "bfloat16, all real clips": {"precision": "bfloat16", "batch_real": 0},
    "cross-entropy": {"objective": "cross-entropy(trained=2, epochs=1)", "lr": 0.0},
    "dm": {"method": "dm", "storage": "h264"},
    "fully learnable": {"fully_learnable": True, "initial_keyframes": 3},
    "two videos of half size": {"keyframe_scale": 2, "vpc": 2, "init": "real"},
    "without momentum": {"momentum": 0.0},
    "static-dynamic, images": STAGED | {"static_iterations": 5, "iterations": 1, "storage": "uint8"},
    "static-dynamic, memories": STAGED | {"static_iterations": 2, "iterations": 4, "storage": "float32"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_resumes_to_the_same_bytes(store, output, crashing_at, name):
    options = {"iterations": 6, "epsilon": 0.03, "lr": 10.0, **VARIANTS[name]}
    with crashing_at(4):
        run_tiny(store, output, checkpoint_seconds=0, **options)
    resumed = run_tiny(store, output, resume=True, **options)
    assert output.read_bytes() == resumed.to_bytes() == run_tiny(store, **options).to_bytes()
    assert [step["iteration"] for step in recorded(output, "step")] == list(range(6))
    assert not checkpoint_path(output).exists()


@pytest.mark.parametrize("options", [{"precision": "bfloat16"}, {"method": "static-dynamic"}, {"lr": 0.0}])
def test_one_seed_gives_the_same_file_with_any_number_of_threads(store, options):
    small, files = {"vpc": 2, "width": 8, "batch_real": 4, "iterations": 4, "epsilon": 0.03} | options, []
    for number in (1, 3):
        with threads(number):
            files.append(run_tiny(store, **small).to_bytes())
    assert files[0] == files[1]


LONG = {"width": 2, "batch_real": 2, "iterations": 60, "static_iterations": 2, "epsilon": 0.03}


def launched(store: ClipStore, output: Path, *more: str) -> subprocess.Popen:
    options = [word for key, value in LONG.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    command = ["condense", str(store.path), "-o", str(output), "--recipe", "paper"]
    options += ["--checkpoint-seconds", "0", "--device", "cpu"]
    program = [sys.executable, "-c", "from prism.cli import main; main()"]
    return subprocess.Popen([*program, *command, *options, *more], stderr=subprocess.PIPE, text=True)


def num_steps(output: Path) -> int:
    path = telemetry_path(output)
    return path.read_bytes().count(b'"kind": "step"') if path.exists() else 0


def test_a_run_killed_between_its_set_and_its_checkpoint_finishes_again(store, output, tmp_path, monkeypatch):
    def killed(path: Path) -> None:
        if output.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recorder, "discard", killed)
        with pytest.raises(KeyboardInterrupt):
            run_tiny(store, output, checkpoint_seconds=0)
    done = output.read_bytes()
    assert checkpoint_path(output).exists()
    run_tiny(store, output, resume=True)
    assert output.read_bytes() == done
    assert {path.name for path in tmp_path.iterdir()} == {output.name, telemetry_path(output).name}


def test_a_gpu_that_is_lost_leaves_a_checkpoint_from_which_the_run_goes_on(store, tmp_path, monkeypatch):
    output, step, done, lost = tmp_path / "set", Condensation.step, list[int](), [3]

    def stepped(run: Condensation) -> Step:
        if run.iteration in lost:
            raise RuntimeError("CUDA error: unspecified launch failure")
        done.append(run.iteration)
        return step(run)

    monkeypatch.setattr(Condensation, "step", stepped)
    with pytest.raises(EngineError, match=r"the GPU failed .* with --resume\.$"):
        run_tiny(store, output, checkpoint_seconds=0)
    lost.clear()
    run_tiny(store, output, resume=True)
    assert done == [*range(len(done))]
    assert output.read_bytes() == run_tiny(store).to_bytes()


def test_a_signal_saves_a_checkpoint_and_says_how_to_go_on(store, tmp_path):
    output, uninterrupted = tmp_path / "set.safetensors", run_tiny(store, **LONG).to_bytes()
    process = launched(store, output)
    wait_for(lambda: num_steps(output) > 5 or process.poll() is not None)
    assert process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert message.splitlines()[-1].startswith("prism: stopped at iteration ")
    assert "--resume" in message
    assert message.count("prism: ") == 1
    assert num_steps(output) == int(message.split("iteration ")[1].split(" ")[0])
    assert not output.exists()
    run_tiny(store, output, resume=True, **LONG)
    assert output.read_bytes() == uninterrupted


@pytest.fixture
def unfinished(store, output, crashing_at) -> Path:
    """The output of a run that has left its checkpoint beside it."""
    with crashing_at(4):
        run_tiny(store, output, checkpoint_seconds=0)
    return output


def test_a_checkpoint_without_resume_is_refused(store, unfinished):
    with pytest.raises(ConfigError, match=r"--resume.*--overwrite"):
        run_tiny(store, unfinished)
    assert checkpoint_path(unfinished).exists()


def test_resuming_with_another_option_or_pytorch_is_refused_by_name(store, unfinished, monkeypatch):
    before = checkpoint_path(unfinished).read_bytes()
    with pytest.raises(ArtifactError, match=r"--insertion is 'gradient', not 'l2'"):
        run_tiny(store, unfinished, resume=True, insertion="l2")
    assert checkpoint_path(unfinished).read_bytes() == before
    monkeypatch.setattr(prepare, "versions", lambda: versions() | {"torch": "9.9"})
    with pytest.raises(ArtifactError, match=r"its versions\.torch is '.*', not '9\.9'"):
        run_tiny(store, unfinished, resume=True)


def test_overwriting_starts_again_and_forgets_the_old_checkpoint(store, unfinished, crashing_at):
    with crashing_at(1):
        run_tiny(store, unfinished, overwrite=True)
    # A stale checkpoint would now continue the old run in the middle of the new one's telemetry.
    assert not checkpoint_path(unfinished).exists()
    run_tiny(store, unfinished, resume=True)
    assert [step["iteration"] for step in recorded(unfinished, "step")] == list(range(8))
    assert unfinished.read_bytes() == run_tiny(store).to_bytes()


def test_overwriting_that_ends_at_once_keeps_telemetry_and_checkpoint(store, unfinished, monkeypatch):
    before = telemetry_path(unfinished).read_bytes()
    monkeypatch.setattr(recorder, "discard", None)
    with pytest.raises(TypeError):
        run_tiny(store, unfinished, overwrite=True)
    assert checkpoint_path(unfinished).exists()
    assert telemetry_path(unfinished).read_bytes() == before


def test_resuming_a_finished_run_gives_its_set_and_computes_nothing(store, output, monkeypatch):
    made = run_tiny(store, output)
    written, told = output.read_bytes(), telemetry_path(output).read_bytes()
    monkeypatch.setattr(Condensation, "step", None)
    assert run_tiny(store, output, resume=True).to_bytes() == made.to_bytes() == written
    assert (output.read_bytes(), telemetry_path(output).read_bytes()) == (written, told)


def test_resuming_over_the_set_of_another_run_is_refused_by_name(store, tmp_path):
    written = run_tiny(store, tmp_path / "set").to_bytes()
    with pytest.raises(ArtifactError, match=r"belongs to another run: its --seed is 0, not 7"):
        run_tiny(store, tmp_path / "set", resume=True, seed=7)
    select(store, output=tmp_path / "real")
    assert "belongs to another run" in refusal_of(ArtifactError, run_tiny, store, tmp_path / "real", resume=True)
    assert (tmp_path / "set").read_bytes() == written
    run_tiny(store, tmp_path / "set", resume=True, overwrite=True, seed=7)
    assert CondensedSet.load(tmp_path / "set").source["config"]["seed"] == 7


@pytest.mark.parametrize("damage", ["truncated", "text", "no tensors", "other shapes"])
def test_a_damaged_checkpoint_is_refused_in_one_sentence(store, unfinished, damage):
    path = checkpoint_path(unfinished)
    whole = path.read_bytes()
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    changed = {
        "truncated": whole[:-10],
        "text": b"hello",
        "no tensors": safetensors.torch.save({}, metadata),
        "other shapes": safetensors.torch.save({"frames": torch.ones(3), "mask": torch.ones(2)}, metadata),
    }
    path.write_bytes(changed[damage])
    assert "damaged" in refusal_of(ArtifactError, run_tiny, store, unfinished, resume=True)


def test_a_loss_that_is_not_finite_names_iteration_class_and_remedy_and_keeps_the_checkpoint(store, output):
    said = refusal_of(DivergedError, run_tiny, store, output, lr=1e30, checkpoint_seconds=0)
    assert re.search(r"class 'class0' .* iteration 1\..*--lr 1e\+29 ", said)
    assert not output.exists()
    assert checkpoint_path(output).exists()


def test_the_class_that_diverged_is_the_one_that_is_named(store):
    setup, run = setup_of(store, **TINY), started(store)

    def check(iteration: int, *losses: float) -> None:
        check_finite(setup, run, Step(iteration, torch.tensor(losses), 2.0, 1.0))

    with pytest.raises(DivergedError, match=r"class1' .* at iteration 1\. The learning rate is too high"):
        check(1, 1.0, float("nan"))
    with pytest.raises(DivergedError, match=r"class0' .* iteration 0\. Nothing has moved\. Look at obj"):
        check(0, float("inf"), 1.0)
    check(0, 1.0, 2.0)


@pytest.mark.parametrize("part", ["frames", "momentum.0"])
def test_a_checkpoint_of_spoiled_values_is_not_written_and_the_good_one_stays(store, tmp_path, monkeypatch, part):
    def step(run: Condensation, step=Condensation.step) -> dict:
        done = step(run)
        if run.iteration == 3:
            run.tensors()[part].view(-1)[0] = float("inf")
        return done

    monkeypatch.setattr(Condensation, "step", step)
    with pytest.raises(DivergedError, match=rf"{part} .* not finite after iteration 2\..*--lr 0\.1 .* stays\."):
        run_tiny(store, tmp_path / "set", checkpoint_seconds=0)
    with safetensors.safe_open(checkpoint_path(tmp_path / "set"), framework="pt") as file:
        assert json.loads(file.metadata()["prism"])["iteration"] == 2
        assert file.get_tensor(part).isfinite().all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"initial_keyframes": 9}, "initial_keyframes = 9, but the clips have 8 frames"),
        ({"initial_keyframes": 0, "insertion": "l2"}, "rule 'l2' has none to insert.*--initial-keyframes 2"),
        ({"keyframe_scale": 5}, "keyframe_scale = 5, but the clips have 48×48 pixels"),
        ({"checkpoint_seconds": -1.0}, "checkpoint_seconds = -1"),
        ({"checkpoint_seconds": float("nan")}, "checkpoint_seconds = nan"),
    ],
)
def test_what_does_not_fit_the_store_or_is_no_time_is_refused(store, options, said):
    with pytest.raises(ConfigError, match=said):
        run_tiny(store, **options)


@pytest.mark.parametrize("method", ["prism", "static-dynamic"])
def test_no_iterations_leave_the_videos_as_they_start(store, tmp_path, method):
    options = {"method": method, "insertion": "never", "iterations": 0}
    made = run_tiny(store, tmp_path / "set", **options)
    setup = setup_of(store, **(TINY | options))
    run = setup.start(CPU)
    for _ in range(run.num_iterations):
        run.step()
    assert torch.equal(made.render(), finished_set(setup, run, {}).render())


@pytest.mark.parametrize(("num", "method", "is_said"), [(8, "prism", True), (2, "prism", False), (2, Grey, True)])
def test_a_rule_that_has_nothing_to_insert_is_named(store, capfd, num, method, is_said):
    run_tiny(store, method=method, initial_keyframes=num, insertion="gradient", iterations=1)
    said = "Caution: insertion rule gradient inserts nothing, as the videos begin with every frame."
    assert (said in capfd.readouterr().err) == is_said


class Always(InsertionRule):
    def propose(self, state):
        return torch.ones_like(state.mask)


FIXED = "Caution: method dm fixes insertion at 'never': 'gradient' is not used."
UNUSED = "Caution: {} is not used with the other options."
EFFECTS = [
    ({"method": "dm", "insertion": "gradient"}, FIXED),
    ({"method": "dm", "warmup": 0.3}, UNUSED.format("warmup = 0.3")),
    ({"epsilon": 0.1}, UNUSED.format("epsilon = 0.1")),
    ({"insertion": Always(), "epsilon": 0.1}, UNUSED.format("epsilon = 0.1")),
    ({"fully_learnable": True, "insertion": "gradient", "epsilon": 0.1}, UNUSED.format("epsilon = 0.1")),
    ({"lr": 1.0, "relative_lr": 0.1}, UNUSED.format("relative_lr = 0.1")),
    ({"static_lr": 5.0}, UNUSED.format("static_lr = 5.0")),
    ({"quality": 10}, UNUSED.format("quality = 10")),
    ({"placement": "budget"}, UNUSED.format("placement = 'budget'")),
    ({"fully_learnable": True, "insertion": "gradient"}, UNUSED.format("insertion = 'gradient'")),
    ({"insertion": "gradient", "epsilon": 0.1, "storage": "h264", "quality": 10, "relative_lr": 0.1}, None),
    ({"method": StaticDynamic(static_iterations=0, static_lr=5.0)}, None),
]


@pytest.mark.parametrize(("options", "said"), EFFECTS)
def test_an_option_without_effect_is_named_and_not_recorded(store, capfd, options, said):
    still = {"insertion": "never", "lr": 0.0, "iterations": 0, "width": 2, "initial_keyframes": 2, "init": "real"}
    made = condense(store, device="cpu", **(still | options))
    err = capfd.readouterr().err
    if said is None:
        assert "Caution" not in err
        return
    assert f"{said}\n" in err
    name = said.split()[4 if " fixes " in said else 1]
    assert made.source["config"].get(name, getattr(CondenseConfig, name)) != options[name]
