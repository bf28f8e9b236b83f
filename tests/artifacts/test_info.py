"""`prism info` knows every artifact, and says what a file is not."""

from contextlib import closing

import pytest

from prism.artifacts.info import describe
from prism.artifacts.telemetry import TelemetryWriter
from prism.errors import ArtifactError
from prism.evaluation.evaluate import evaluate
from prism.exports.export import export
from prism.selection.select import select


def test_a_store_is_described_by_its_classes_clips_and_shape(store):
    facts = describe(store.path)
    assert facts["kind"] == "clip store"
    assert facts["clips"] == {"train": 8, "val": 2, "test": 4}
    assert (facts["num_frames"], facts["size"]) == (8, [48, 48])
    assert facts["bytes"] == (store.path / "frames.u8").stat().st_size
    assert facts["fingerprint"] == store.fingerprint


def test_a_condensed_set_is_described_by_what_it_holds_and_costs(store, tmp_path):
    select(store, output=tmp_path / "set")
    facts = describe(tmp_path / "set")
    assert (facts["kind"], facts["method"], facts["storage"]) == ("condensed set", "random", "uint8")
    assert (facts["videos"], facts["keyframes"]) == (2, 16)
    assert facts["bytes"] == (tmp_path / "set").stat().st_size
    assert facts["float32_bytes"] == 16 * 3 * 48 * 48 * 4


def test_a_result_is_described_by_its_number_and_n(store, tmp_path):
    result = evaluate(select(store), store, output=tmp_path / "r.json", width=2, epochs=1, seeds=2, device="cpu")
    facts = describe(tmp_path / "r.json")
    assert facts["kind"] == "result"
    assert facts["top1_percent"].endswith("(2)")
    assert (facts["label"], facts["task"]) == (result.label, "classification")


@pytest.mark.parametrize("content", [b"", b"hello", b"{}", b"{", b"\x00" * 99, b'{"format": "other"}'])
def test_what_is_none_of_them_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ArtifactError):
        describe(tmp_path / "file")


def test_missing_files_and_foreign_folders_are_refused(tmp_path):
    with pytest.raises(ArtifactError, match="does not exist"):
        describe(tmp_path / "missing")
    with pytest.raises(ArtifactError, match=r"is a folder, and neither .* makes a store of a folder of videos\.$"):
        describe(tmp_path)


def test_telemetry_and_exports_are_called_by_their_names(store, tmp_path):
    chosen = select(store)
    with closing(TelemetryWriter(tmp_path / "telemetry")) as telemetry:
        telemetry.write("start", config={})
        telemetry.write("end", seconds=1)
    export(chosen, tmp_path / "export")
    for name, kind in (("telemetry", "the telemetry of a condensed set"), ("export", "a folder of prism export")):
        with pytest.raises(
            ArtifactError, match=f"' is {kind}, and neither a clip store, a condensed set nor a result"
        ):
            describe(tmp_path / name)
