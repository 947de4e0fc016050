"""Settings: wrong values are answered in words, files are read once, and docstrings are made from descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field, ValidationError

from cotempo.errors import ParameterError
from cotempo.settings import Settings, read_toml


class Inner(Settings):
    """A section."""

    depth: int = Field(1, ge=1, description="How deep.")


class Outer(Settings):
    """Settings with a section.

    Examples
    --------
    >>> Outer(size=2.0).inner.depth
    1
    """

    size: float = Field(description="How large.")
    inner: Inner = Inner()
    maybe: Inner | None = None


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"sise": 1.0, "size": 1.0}, "Outer has no parameter 'sise' (did you mean 'size'?)"),
        ({"zzz": 1, "size": 1.0}, "Outer has no parameter 'zzz'; known are inner, maybe, size"),
        ({}, "Outer must be given 'size': how large."),
        ({"size": "x"}, "Outer: size: Input should be a valid number, unable to parse string as a number, got 'x'"),
        ({"size": 1.0, "inner": {"dept": 2}}, "Outer [inner] has no parameter 'dept' (did you mean 'depth'?)"),
        (
            {"size": 1.0, "maybe": {"depth": 0}},
            "Outer [maybe]: depth: Input should be greater than or equal to 1, got 0",
        ),
    ],
)
def test_a_wrong_value_is_answered_in_words(values: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Outer(**values)
    assert str(caught.value) == text
    with pytest.raises(ParameterError) as caught:
        Outer.read(values, "page.toml")
    assert str(caught.value) == text.replace("Outer", "page.toml", 1)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Outer(size=1.0).size = 2.0  # type: ignore[misc]


def test_descriptions_become_a_section_before_the_others() -> None:
    assert Outer.__doc__ is not None
    head, parameters, *_ = Outer.__doc__.split("\n\n")
    assert head == "Settings with a section."
    assert parameters == "Parameters\n----------\nsize : float\n    How large."
    assert Outer.__doc__.index("Parameters") < Outer.__doc__.index("Examples")


def test_a_section_written_by_hand_stays() -> None:
    class Written(Settings):
        """By hand.

        Parameters
        ----------
        size
            Mine.
        """

        size: float = Field(1.0, description="Not this one.")

    assert Written.__doc__ is not None
    assert "Not this one" not in Written.__doc__


def test_a_subclass_documents_what_it_inherits() -> None:
    class Deeper(Inner):
        """A deeper section."""

    assert "depth : int, default 1\n    How deep." in (Deeper.__doc__ or "")


def test_a_file_is_read_or_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text("size = 2.0")
    assert Outer.read(read_toml(tmp_path / "good.toml"), "good.toml").size == 2.0
    with pytest.raises(ParameterError, match="must be a readable file: No such file"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff = 3")
    with pytest.raises(ParameterError, match="must be a TOML file"):
        read_toml(tmp_path / "bad.toml")
