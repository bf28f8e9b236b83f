"""Ranking: whether training on a set puts networks and hyper-parameters in the order that all clips do."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import RANKING, check_output_kind
from prism.artifacts.rankings import FULL, RankedSet, RankedTrial, Ranking
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import seconds_to_make
from prism.config import as_dict, as_list
from prism.errors import CondensedError, ConfigError, DivergedError, ResultError
from prism.evaluation.candidates import Candidates, read_candidates
from prism.evaluation.evaluate import evaluate
from prism.evaluation.materials import set_material, store_material
from prism.evaluation.options import Candidate, EvaluateConfig, RankConfig
from prism.evaluation.trial import trainings_side_by_side
from prism.evaluation.trials import STOPPED, data_of
from prism.machine.devices import pick_device
from prism.machine.executors import completed
from prism.machine.locks import claim
from prism.machine.progress import note, progress_bar
from prism.machine.provenance import check_same_run, provenance
from prism.machine.run import Run, parted
from prism.machine.signals import stoppable
from prism.networks.build import build_for
from prism.networks.training_memory import TrainingMemory, check_memory

SCORE = "top1"
"""What candidates are ordered by."""


def rank(
    sets: Sequence[CondensedSet | str | Path],
    data: ClipStore | str | Path,
    config: RankConfig | None = None,
    run: Run | None = None,
    *,
    candidates: Candidates | str | Path | None = None,
    workers: int | None = None,
    **options: Any,
) -> Ranking:
    """Train every candidate on all training clips and on each set, and compare the orders of their scores.

    Every network is trained and scored by `prism evaluate` with protocol clean, once, after its last epoch. All
    sets get the same number of steps. Sets whose options differ in their seeds alone are of one kind, and are
    summed up together; name several, for one set says nothing of the next one.

    Args:
        sets: sets, or their files.
        data: the store whose training clips are the reference, and whose `config.split` is scored.
        config: networks, steps and split.
        run: how it runs; its output is the ranking's file, which is written after every candidate on every set.
        candidates: a TOML file with a table for each candidate, or a mapping from names to `Candidate` or its
            options; by default the 12 of `prism.evaluation.candidates.BUILT_IN`.
        workers: candidates that are trained side by side, at most; by default as many as PyTorch would use
            threads. On a GPU it is always one, and an executor has workers of its own. No score depends on it.
        options: fields of `config` and of `prism.machine.run.Run`.

    Raises:
        ConfigError: there are fewer than 3 candidates, or two of one name; a candidate, a set and the data do not
            fit each other; no set is given, or one twice; or training would take more memory than there is.
        StoreError: the split is empty, or the store was changed meanwhile.
        OutputError: the output exists, cannot be written, or another run is writing it.
        ResultError: `resume` finds the ranking of another run.
        Interrupted: Ctrl-C or SIGTERM; the output has the networks that are done.
    """
    config, run = parted(RankConfig, config, run, options)
    if not (sets := as_list(sets, "condensed sets")):
        raise ConfigError("rank needs at least one condensed set.")
    run.check_workers(workers)
    path, store = run.path, ClipStore.of(data)
    known = read_candidates(candidates)
    with stoppable(None if path is None else STOPPED), claim(path):
        if path is not None:
            check_output_kind(path, RANKING, run.overwrite or run.resume, [*sets, store.path, candidates])
        contest = _Contest.of(sets, store, config, known, run)
        needs, ranking = contest.check(run), contest.ranking
        if run.resume and path is not None and path.exists():
            found = Ranking.load(path)
            check_same_run(f"ranking '{path}'", found.identity, ranking.identity, ResultError)
            ranking = replace(ranking, trials=found.trials)
            if found.config != ranking.config:
                # Of a finished one nothing else would be saved: its page would have other draws than its tables.
                ranking.save(path)
        if run.executor is not None:
            return contest.completed(ranking, run, run.executor)
        most = torch.get_num_threads() if workers is None else workers
        with trainings_side_by_side(needs, pick_device(run.device), most) as threads:
            return contest.completed(ranking, run, threads)


@dataclass(frozen=True)
class _Contest:
    """What is ranked on what.

    Attributes:
        materials: the sets in memory, or where an executor computes the files that there are.
        ranking: without networks.
        device: `auto`, `cpu` or `cuda` of the machine that trains.
    """

    store: ClipStore
    config: RankConfig
    candidates: dict[str, Candidate]
    materials: tuple[CondensedSet | Path, ...]
    ranking: Ranking
    device: str

    @classmethod
    def of(
        cls,
        sets: Sequence[CondensedSet | str | Path],
        store: ClipStore,
        config: RankConfig,
        candidates: dict[str, Candidate],
        run: Run,
    ) -> "_Contest":
        """Read the sets, and refuse those that do not fit the store."""
        plain, output = EvaluateConfig(split=config.split), run.path
        _, full = store_material(store, store, plain, output)
        materials, ranked, names = [], [], dict[tuple[str, str], str]()
        for given in sets:
            material, subject = set_material(given, store, plain, output)
            file, condensed = material.path, material.condensed
            name = file.stem if file else subject.method
            # Herding and k-center draw nothing: another seed gives another record of the same clips.
            told = subject.method, subject.videos
            if told in names:
                raise ConfigError(f"the sets '{names[told]}' and '{name}' are the same. Name each set once.")
            names[told] = name
            note(subject.said_of_leaks and f"Caution: '{name}': {subject.said_of_leaks}", enabled=run.progress)
            # A set in a file travels as its place.
            materials.append(file.absolute() if file and run.executor is not None else condensed)
            ranked.append(RankedSet(name, subject, seconds_to_make(file, condensed) if file else 0.0))
        named = {name: as_dict(candidate) for name, candidate in candidates.items()}
        # An empty split is refused here.
        store.clips(config.split)
        data = data_of(store, config.split, {SCORE: 1 / len(store.classes)}, output)
        ranking = Ranking(named, as_dict(config), data, full, tuple(ranked), (), provenance())
        return cls(store, config, candidates, tuple(materials), ranking, run.device)

    def check(self, run: Run) -> TrainingMemory:
        """Refuse a candidate that the store's clips or the memory do not suffice for, before any is trained.

        Returns:
            The memory that the largest one takes.

        Raises:
            ConfigError: one of them; it is named.
        """
        device, needs = pick_device(run.device), []
        for name, candidate in self.candidates.items():
            try:
                shape = {"width": candidate.width, "hidden": candidate.hidden}
                network = build_for(self.store, candidate.model, "meta", **shape)
                needs.append(check_memory(network, min(self.config.batch_size, self._clips(FULL)), device))
            except ConfigError as error:
                raise ConfigError(f"candidate '{name}': {error}") from None
        return max(needs, key=lambda one: one.total_bytes)

    def completed(self, ranking: Ranking, run: Run, executor: Executor | None) -> Ranking:
        """Train the networks that a ranking lacks, and save it after each candidate on each set."""
        expected, done = ranking.expected, {(one.candidate, one.set, one.seed) for one in ranking.trials}
        cells = [(place, number) for place in range(len(self.candidates)) for number in expected]
        missing = [cell for cell in cells if not {(*cell, seed) for seed in expected[cell[1]]} <= done]
        kept = tuple(one for one in ranking.trials if (one.candidate, one.set) not in set(missing))
        ranking = replace(ranking, trials=kept)
        total, left = (
            sum(self._length(number) * len(expected[number]) for _, number in some) for some in (cells, missing)
        )
        with progress_bar("Ranking", total, "clips", enabled=run.progress, done=total - left) as advance:
            for (place, number), found in completed(executor, self.trained, missing):
                trials = sorted([*ranking.trials, *found], key=lambda one: (one.candidate, one.set, one.seed))
                ranking = replace(ranking, trials=tuple(trials), provenance=provenance())
                if run.path is not None:
                    ranking.save(run.path)
                best = max(trial.score or 0.0 for trial in found)
                name = list(self.candidates)[place]
                advance(self._length(number) * len(found), **{name: f"{100 * best:.1f}%"})
        return ranking

    def trained(self, cell: tuple[int, int]) -> list[RankedTrial]:
        """The networks of a candidate on a set, or on all clips, here or where an executor computes.

        Args:
            cell: the places of both.
        """
        return self._trained(*cell, self.ranking.expected[cell[1]])

    def _trained(self, place: int, number: int, seeds: Sequence[int]) -> list[RankedTrial]:
        started = time.monotonic()
        try:
            result = self._evaluated(place, number, seeds)
        except DivergedError:
            if len(seeds) == 1:
                return [RankedTrial(place, number, seeds[0], None, round(time.monotonic() - started, 3))]
            # The others may well have learned.
            return [trial for seed in seeds for trial in self._trained(place, number, [seed])]
        return [RankedTrial(place, number, one.seed, one.scores[SCORE], one.seconds) for one in result.runs]

    def _evaluated(self, place: int, number: int, seeds: Sequence[int]) -> Result:
        config = EvaluateConfig(
            **list(self.candidates.values())[place].__dict__,
            seeds=len(seeds),
            seed=seeds[0],
            epochs=self._epochs(number),
            batch_size=self.config.batch_size,
            split=self.config.split,
        )
        run = Run(device=self.device)
        if number == FULL:
            return evaluate(None, self.store, config, run, train_store=self.store, workers=1)
        result = evaluate(self.materials[number], self.store, config, run, workers=1)
        if result.subject.fingerprint != self.ranking.sets[number].subject.fingerprint:
            raise CondensedError(f"'{self.materials[number]}' was changed while it was ranked on. Start again.")
        return result

    def _clips(self, number: int) -> int:
        """Clips that an epoch shows."""
        return (self.ranking.full if number == FULL else self.ranking.sets[number].subject).num_videos

    def _epochs(self, number: int) -> int:
        """Passes over the clips that come nearest to the steps that are asked for, at least one."""
        steps = self.config.full_steps if number == FULL else self.config.steps
        return max(1, round(steps / -(-self._clips(number) // self.config.batch_size)))

    def _length(self, number: int) -> int:
        """Clips that a network is trained on, over all epochs."""
        return self._epochs(number) * self._clips(number)
