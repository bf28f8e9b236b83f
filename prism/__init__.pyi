"""The names of PRISM, with every option of its verbs; made by `python -m tests.stub`."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from prism import networks as networks
from prism.artifacts.clips import Clips as Clips
from prism.artifacts.clips import Normalisation as Normalisation
from prism.artifacts.condensed import CondensedSet as CondensedSet
from prism.artifacts.dataset import OutputFormat
from prism.artifacts.dataset import VideoDataset as VideoDataset
from prism.artifacts.estimates import lead as lead
from prism.artifacts.options import StoreSplit
from prism.artifacts.rankings import Ranking as Ranking
from prism.artifacts.results import Result as Result
from prism.artifacts.store import ClipStore as ClipStore
from prism.condensation.options import CondenseConfig as CondenseConfig
from prism.errors import PrismError as PrismError
from prism.evaluation.candidates import Candidates
from prism.evaluation.options import Candidate as Candidate
from prism.evaluation.options import EvaluateConfig as EvaluateConfig
from prism.evaluation.options import RankConfig as RankConfig
from prism.evaluation.options import RetrieveConfig as RetrieveConfig
from prism.exports.export import Export
from prism.exports.options import ExportConfig as ExportConfig
from prism.ingestion.listing import DataSet
from prism.ingestion.options import IngestConfig as IngestConfig
from prism.ingestion.options import MotionConfig as MotionConfig
from prism.machine.run import Run
from prism.reports.page import report as report
from prism.reproduction.compare import Comparison
from prism.selection.options import SelectConfig as SelectConfig

__version__: str

def condense(
    store: ClipStore | str | Path,
    config: CondenseConfig | None = None,
    run: Run | None = None,
    *,
    checkpoint_seconds: float = 60.0,
    vpc: int = 1,
    method: Any = "prism",
    init: Literal["noise", "real", "mean"] = "mean",
    initial_keyframes: int = 0,
    keyframe_scale: int = 4,
    fully_learnable: bool = False,
    seed: int = 0,
    iterations: int = 5000,
    lr: float = 0.0,
    relative_lr: float = 0.2,
    decay: Literal["cosine", "constant"] = "cosine",
    momentum: float = 0.95,
    objective: Any = "distribution",
    batch_real: int = 64,
    network_seed: int = 0,
    static_iterations: int = 1000,
    static_lr: float = 1.0,
    dynamic_lr: float = 0.0001,
    hallucinator_lr: float = 1e-05,
    insertion: Any = "never",
    epsilon: float = 0.0,
    warmup: float = 0.2,
    cooldown: float = 0.2,
    model: Any = "convnet3d",
    width: int = 0,
    precision: Literal["float32", "bfloat16"] = "float32",
    storage: Any = "float32",
    quality: int = 50,
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    executor: Executor | None = None,
    progress: bool = False,
) -> CondensedSet: ...
def evaluate(
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: EvaluateConfig | None = None,
    run: Run | None = None,
    *,
    train_store: ClipStore | str | Path | None = None,
    label: str | None = None,
    workers: int | None = None,
    model: Any = "convnet3d",
    width: int = 0,
    hidden: int = 0,
    seeds: int = 3,
    seed: int = 0,
    epochs: int = 500,
    lr: float = 0.01,
    batch_size: int = 256,
    shift: float = 0.0,
    max_grad_norm: float = 0.0,
    stratified: bool = False,
    train_vpc: int = 0,
    flip: Literal["protocol", "always", "once", "never"] = "protocol",
    split: Literal["train", "val", "test"] = "test",
    protocol: Literal["clean", "wang2024"] = "clean",
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    executor: Executor | None = None,
    progress: bool = False,
) -> Result: ...
def export(
    condensed: CondensedSet | str | Path,
    output: str | Path,
    config: ExportConfig | None = None,
    run: Run | None = None,
    *,
    result: Result | str | Path | None = None,
    to: Any = "videofolder",
    fps: float = 8.0,
    quality: int = 65,
    lossless: bool = False,
    shard_videos: int = 1000,
    video: int = 0,
    overwrite: bool = False,
    progress: bool = False,
) -> Export: ...
def ingest(
    source: str | Path | DataSet,
    output: str | Path,
    config: IngestConfig | None = None,
    run: Run | None = None,
    *,
    workers: int | None = None,
    num_frames: int = 16,
    stride: int = 4,
    size: int = 112,
    sampling: Literal["stride", "fps", "even"] = "stride",
    fps: float = 2.0,
    clips_per_video: int = 1,
    window: Literal["random", "centre"] = "random",
    random_test_windows: int = 0,
    flip: Literal["auto", "on", "off"] = "auto",
    seed: int = 0,
    name: str = "",
    layout: Any = "auto",
    official_split: int = 1,
    train_list: Literal["official", "all-but-test"] = "official",
    annotations: str = "",
    val_fraction: float = 0.1,
    test_fraction: float = 0.2,
    group_pattern: str = "",
    min_side: int = 8,
    max_pixels: int = 33554432,
    max_seconds: float = 14400.0,
    max_decode_seconds: float = 600.0,
    max_decode_bytes: int = 4294967296,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: bool = False,
) -> ClipStore: ...
def load(
    path: str | Path,
    *,
    num_frames: int = 16,
    stride: int = 4,
    size: int = 112,
    sampling: Literal["stride", "fps", "even"] = "stride",
    fps: float = 2.0,
    clips_per_video: int = 1,
    window: Literal["random", "centre"] = "random",
    random_test_windows: int = 0,
    flip: Literal["auto", "on", "off"] = "auto",
    seed: int = 0,
    name: str = "",
    layout: Any = "auto",
    official_split: int = 1,
    train_list: Literal["official", "all-but-test"] = "official",
    annotations: str = "",
    val_fraction: float = 0.1,
    test_fraction: float = 0.2,
    group_pattern: str = "",
    min_side: int = 8,
    max_pixels: int = 33554432,
    max_seconds: float = 14400.0,
    max_decode_seconds: float = 600.0,
    max_decode_bytes: int = 4294967296,
    split: StoreSplit = "train",
    output_format: OutputFormat = "CTHW",
    normalise: bool = True,
    transform: Callable[[Tensor], Any] | None = None,
    in_memory: bool = False,
) -> VideoDataset: ...
def rank(
    sets: Sequence[CondensedSet | str | Path],
    data: ClipStore | str | Path,
    config: RankConfig | None = None,
    run: Run | None = None,
    *,
    candidates: Candidates | str | Path | None = None,
    workers: int | None = None,
    seeds: int = 1,
    full_seeds: int = 2,
    seed: int = 0,
    steps: int = 200,
    full_steps: int = 600,
    batch_size: int = 10,
    split: Literal["val", "test"] = "val",
    resamples: int = 2000,
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    executor: Executor | None = None,
    progress: bool = False,
) -> Ranking: ...
def reproduce(
    name: str,
    data: Sequence[ClipStore | str | Path],
    output: str | Path = "runs/reproduce",
    run: Run | None = None,
    *,
    scale: str = "full",
    seeds: int = 1,
    recipes: Sequence[str | Path] = (),
    vpc: Collection[int] = (),
    dry_run: bool = False,
    device: str = "auto",
    executor: Executor | None = None,
    progress: bool = False,
) -> Comparison: ...
def retrieve(
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: RetrieveConfig | None = None,
    run: Run | None = None,
    *,
    train_store: ClipStore | str | Path | None = None,
    label: str | None = None,
    workers: int | None = None,
    model: Any = "convnet3d",
    width: int = 0,
    hidden: int = 0,
    seeds: int = 3,
    seed: int = 0,
    epochs: int = 500,
    lr: float = 0.01,
    batch_size: int = 128,
    shift: float = 0.125,
    max_grad_norm: float = 0.0,
    stratified: bool = False,
    train_vpc: int = 0,
    temperature: float = 0.1,
    split: Literal["val", "test"] = "test",
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    executor: Executor | None = None,
    progress: bool = False,
) -> Result: ...
def select(
    store: ClipStore | str | Path,
    config: SelectConfig | None = None,
    run: Run | None = None,
    *,
    from_list: str | Path | None = None,
    method: Any = "random",
    vpc: int = 1,
    takes: int = 1,
    seed: int = 0,
    storage: Any = "uint8",
    quality: int = 35,
    model: Any = "convnet3d",
    width: int = 0,
    epochs: int = 50,
    embedder_seed: int = 0,
    output: str | Path | None = None,
    overwrite: bool = False,
    device: str = "auto",
    progress: bool = False,
) -> CondensedSet: ...
def write_motion(
    output: str | Path,
    config: MotionConfig | None = None,
    run: Run | None = None,
    *,
    kind: Literal["pairs", "glyphs"] = "pairs",
    train_per_class: int = 40,
    test_per_class: int = 20,
    num_frames: int = 24,
    size: int = 64,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = False,
) -> Path: ...
