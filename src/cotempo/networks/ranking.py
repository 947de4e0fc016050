"""Ranking edges in one round, from summed moments alone.

`EdgeRanking` is the method, `cotempo.networks.rank` the short way to it. Step one tells the pooled mean and spread of
every variable, so that all clients standardise alike; under `copula` step two sums histograms; the last step sums
moments of the standardised rows. Nothing but sums over clients is used in any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from cotempo.data import Series, Table
from cotempo.errors import DataError, ParameterError, Problem, nearest
from cotempo.federation.exchange import Answers, Ask, Expect, Question, Spec
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Method, Metrics, Roster
from cotempo.federation.registry import register
from cotempo.federation.rng import Rng
from cotempo.networks import copula, pairwise
from cotempo.networks.choosing import CANDIDATES, choose, problem_of, wald
from cotempo.networks.features import Design, draw_waves
from cotempo.networks.generate import make_networks
from cotempo.networks.parent_sets import parent_sets
from cotempo.networks.ranked import FittedRanking, Ranking
from cotempo.networks.views import BLOCKS, Views, blocks, centrings, complete, whole

FloatArray = NDArray[np.float64]

Score = Literal[
    "chosen", "granger", "lagged", "within", "skewness", "within_skewness", "parent_sets", "fourier"
]  # fmt: skip

_MOST_COLUMNS = 3000  # of joint rows: five Grams of that side are 360 MB


@dataclass(frozen=True)
class RankingState:
    """What the server keeps: the pooled levels, the histograms, and at the end the scores."""

    variables: tuple[str, ...]
    stage: str
    mean: FloatArray
    scale: FloatArray
    waves: FloatArray
    counts: FloatArray
    scores: FloatArray
    choice: str = ""
    likelihoods: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pieces:
    """A client's contiguous stretches: times and values of each."""

    times: tuple[FloatArray, ...]
    values: tuple[FloatArray, ...]


@register()
class EdgeRanking(Method):
    """Rank all edges by how sure they are, in one round.

    A ranking predicts nothing, so no held-out row can say whether joining made it better: `fitted.benefit` is empty.

    Parameters
    ----------
    score
        What edges are ranked by:

        - ``"chosen"``: the features that predict best decide; linear with 1, 2, 3 or 5 lags, squares, or products.
        - ``"granger"``: F statistic of the source's past given the target's own past.
        - ``"lagged"``: partial correlation of target and source's past given everybody's past.
        - ``"within"``: partial correlation inside one time step; tells no direction.
        - ``"skewness"``: which of two variables drives the other, by their third moments.
        - ``"within_skewness"``: partial correlations inside a time step, turned by the skewness.
        - ``"parent_sets"``: averaged over all sets of two parents; for many variables and few rows.
        - ``"fourier"``: Wald statistic of the source's random Fourier features; for effects of any shape.
    lags
        How many past time steps act, for ``granger``, ``lagged`` and ``fourier``. Scores inside a time step do not look
        back, ``parent_sets`` looks back one step and ``chosen`` as far as its candidates do.
    copula
        Take every column for a rising function of a hidden Gaussian, and rank by the hidden correlations: for binary,
        counted and skewed columns. With ``granger``, ``lagged`` and ``within``.
    shrinkage
        Share of the identity mixed into correlations before they are inverted, for the partial correlations; needed
        where rows are fewer than columns.
    perturbed_until
        The time at which an experimental perturbation ends, for ``parent_sets``: rows before and after are centred
        apart, and those after are looked at alone as well.
    candidates
        What ``chosen`` chooses from.
    features
        How many Fourier features a variable has.
    minimum_rows
        A client with fewer complete rows is refused, because sums over a handful of rows show them.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=4, samples=400, degree=0, seed=0)
    >>> ct.EdgeRanking(score="granger").fit(clients).scores(truth)["auroc"] > 0.9
    True
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("levels", "histogram", "moments")
    State: ClassVar[type] = RankingState

    score: Score = "chosen"
    lags: int = Field(1, ge=1, le=50)
    copula: bool = False
    shrinkage: float = Field(0.0, ge=0, lt=1)
    perturbed_until: float | None = None
    candidates: tuple[str, ...] = tuple(CANDIDATES)
    features: int = Field(12, ge=1, le=200)
    minimum_rows: int = Field(10, ge=1)

    @field_validator("copula")
    @classmethod
    def _copula_fits(cls, given: bool, others: ValidationInfo) -> bool:
        allowed = ("granger", "lagged", "within")
        if given and others.data.get("score") not in allowed:
            raise ValueError(f"copula needs one of the scores {allowed}; leave it off or change the score")
        return given

    @field_validator("candidates")
    @classmethod
    def _candidates_are_known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in given if name not in CANDIDATES]
        if unknown or not given:
            hint = nearest(unknown[0], CANDIDATES) if unknown else ""
            raise ValueError(f"candidates must be some of {tuple(CANDIDATES)}{hint}")
        return given

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """A small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=240, seed=0)
        return cls(candidates=("linear-1", "linear-2", "squares")), clients, None

    # At a client.

    def prepare(self, table: Table) -> Pieces:
        """Cut the table into contiguous pieces."""
        assert isinstance(table, Series)  # `check` saw the schema
        empty = [
            Problem("at least one value must not be missing, all are", column=name)
            for name, values in zip(table.features, table.values.T, strict=True)
            if np.isnan(values).all()
        ]
        if empty:
            raise DataError(empty)
        pieces = table.pieces()
        plain = Design(len(table.features), self._design(len(table.features)).lags)
        rows = sum(len(complete(plain.rows(values))) for _, values in pieces)
        if rows < self.minimum_rows:
            raise DataError([Problem(f"at least {self.minimum_rows} complete rows are needed, there are {rows}")])
        return Pieces(tuple(time for time, _ in pieces), tuple(values for _, values in pieces))

    def answer(self, question: Question, prepared: Pieces, memory: None, rng: Rng) -> tuple[Message, None]:
        """Send levels, histograms, or moments of standardised rows."""
        if question.phase == "levels":
            cells = np.vstack(prepared.values)
            seen = (~np.isnan(cells)).sum(axis=0).astype(np.float64)
            return Message({"cells": seen, "sums": np.nansum(cells, 0), "squares": np.nansum(cells**2, 0)}), None
        common = question.common
        pieces = [(values - common["mean"]) / common["scale"] for values in prepared.values]
        if question.phase == "histogram":
            return Message({"counts": copula.histogram(np.vstack(pieces))}), None
        if self.copula:
            pieces = [copula.hidden_scores(values, common["counts"]) for values in pieces]
        design = self._design(pieces[0].shape[1], common["waves"])
        joint = [design.rows(values) for values in pieces]
        views = self._views(joint, [time[design.lags :] for time in prepared.times])
        message: dict[str, Any] = {"rows": views.rows, "sums": views.sums, "gram": views.gram}
        if self._has_thirds:
            rows = complete(np.vstack(joint))
            message["thirds"] = (rows**2).T @ rows
        return Message(message), None

    def _views(self, joint: Sequence[FloatArray], times: Sequence[FloatArray]) -> Views:
        if self.score == "chosen":
            return blocks(joint)
        if self.score == "parent_sets":
            return centrings(joint, times, self.perturbed_until)
        return whole(joint)

    # What both sides know.

    def _design(self, variables: int, waves: FloatArray | None = None) -> Design:
        if self.score == "chosen":
            kinds = {kind for name in self.candidates for kind in CANDIDATES[name][1]}
            lags = max(CANDIDATES[name][0] for name in self.candidates)
            return Design(variables, lags, squares="square" in kinds, products="product" in kinds)
        if self.score == "fourier":
            return Design(variables, self.lags, waves=waves)
        lags = {"granger": self.lags, "lagged": self.lags, "parent_sets": 1}.get(self.score, 0)
        return Design(variables, lags)

    @property
    def _has_thirds(self) -> bool:
        return self.score in ("skewness", "within_skewness")

    @property
    def _view_count(self) -> int:
        counts = {"chosen": BLOCKS, "parent_sets": 2 if self.perturbed_until is None else 3}
        return counts.get(self.score, 1)

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> RankingState:
        """Draw the waves; nothing else is known yet."""
        names = roster.schema.columns
        count = len(names)
        waves = draw_waves(self.features if self.score == "fourier" else 0, rng("waves"))
        columns = len(self._design(count, waves).columns)
        if columns > _MOST_COLUMNS:
            raise ParameterError(
                f"score {self.score!r} must make at most {_MOST_COLUMNS} columns, of {count} variables it makes "
                f'{columns}; leave "products" out of the candidates, or lower lags or features'
            )
        bins = copula.BINS if self.copula else 0
        return RankingState(
            names, "levels", np.zeros(count), np.ones(count), waves, np.zeros((count, bins)), np.zeros((count, count))
        )

    def ask(self, state: RankingState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """One round of two or three steps."""
        if state.stage == "finished":
            return None
        common = {"mean": state.mean, "scale": state.scale, "waves": state.waves, "counts": state.counts}
        message = Message({} if state.stage == "levels" else common)
        return Ask(state.stage, cohort, message, ends_round=state.stage == "moments")

    def absorb(
        self, state: RankingState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[RankingState, Metrics]:
        """Pool the levels, then the histograms, then score the edges."""
        total = answers.sum
        if state.stage == "levels":
            return self._pool(state, total), {}
        if state.stage == "histogram":
            return replace(state, stage="moments", counts=total["counts"]), {}
        views = Views(total["rows"], total["sums"], total["gram"])
        return self._rank(state, views, total["thirds"] if self._has_thirds else None)

    def _pool(self, state: RankingState, total: Message) -> RankingState:
        mean = total["sums"] / total["cells"]
        scale = np.sqrt(np.maximum(total["squares"] / total["cells"] - mean**2, 0.0))
        constant = scale <= 1e-8 * np.maximum(np.abs(mean), 1e-300)
        if constant.any():
            must = "values must vary over all clients, they do not; leave the column out"
            raise DataError([Problem(must, column=state.variables[index]) for index in np.flatnonzero(constant)])
        return replace(state, stage="histogram" if self.copula else "moments", mean=mean, scale=scale)

    def _rank(self, state: RankingState, views: Views, thirds: FloatArray | None) -> tuple[RankingState, Metrics]:
        rows = float(views.rows.sum() if self.score == "chosen" else views.rows[0])
        self._check_rows(views, rows)
        choice = ""
        likelihoods: Mapping[str, float] = {}
        if self.score == "chosen":
            design = self._design(len(state.variables))
            choice, scores, likelihoods = choose(views, design.columns, self.candidates)
        else:
            scores = self._scores(state, views, thirds, rows)
        scores = np.where(np.eye(len(scores), dtype=np.bool_), np.nan, scores)
        ranked = replace(state, stage="finished", scores=scores, choice=choice, likelihoods=likelihoods)
        return ranked, {"rows": rows}

    def _check_rows(self, views: Views, rows: float) -> None:
        needed = {
            "granger": 2.0 * self.lags + 1.0,
            "lagged": 0.0 if self.shrinkage else views.sums.shape[1],
            "within": 0.0 if self.shrinkage else views.sums.shape[1],
            "within_skewness": 0.0 if self.shrinkage else views.sums.shape[1],
        }.get(self.score, 3.0)
        least = rows if self.score == "chosen" else float(views.rows.min())
        if least <= needed:
            raise DataError(
                f"score {self.score!r} needs more than {needed:.0f} complete rows over all clients, there are "
                f"{least:.0f}; bring more rows, lower lags, set shrinkage for partial correlations, or check "
                "perturbed_until"
            )

    def _scores(self, state: RankingState, views: Views, thirds: FloatArray | None, rows: float) -> FloatArray:
        count = len(state.variables)
        if self.score == "parent_sets":
            # The view about phases' means has no further mean to take off.
            freedom = [views.rows[view] - (view != 1) for view in range(len(views.rows))]
            return parent_sets([(views.scatter(view), free) for view, free in enumerate(freedom)])
        if self.score == "fourier":
            design = self._design(count, state.waves)
            return wald(problem_of(views, design.columns, self.lags, ("lag", "wave")))
        scatter = views.scatter()
        if self.copula:
            scatter = copula.hidden_correlations(scatter, state.counts)
        if self.score == "granger":
            return pairwise.granger(scatter, rows, self.lags)
        if self.score == "lagged":
            return pairwise.lagged_partial(scatter, count, self.shrinkage)
        if thirds is None:
            return pairwise.within_partial(scatter, self.shrinkage)
        central = pairwise.central_thirds(thirds, views.gram[0], views.sums[0], rows)
        if self.score == "skewness":
            return pairwise.skewness_direction(scatter, central, rows)
        return pairwise.within_skewness(scatter, central, rows, self.shrinkage)

    def expects(self, state: RankingState, phase: str) -> Expect:
        """Only sums are needed."""
        count = len(state.variables)
        if phase == "levels":
            fields = {
                "cells": Spec((count,), low=0, high=1e12, about="how many values of each variable you have"),
                "sums": Spec((count,), about="the sum of each variable"),
                "squares": Spec((count,), low=0, about="the sum of squares of each variable"),
            }
            return Expect(fields, sums=True)
        if phase == "histogram":
            about = "how many of your values fall into each of the common bins"
            return Expect({"counts": Spec((count, copula.BINS), low=0, high=1e12, about=about)}, sums=True)
        views, columns = self._view_count, len(self._design(count, state.waves).columns)
        fields = {
            "rows": Spec((views,), low=0, high=1e12, about="how many complete rows you have, in each view"),
            "sums": Spec((views, columns), about="the sum of each standardised column over those rows"),
            "gram": Spec((views, columns, columns), about="the sum of products of each pair of those columns"),
        }
        if self._has_thirds:
            about = "the sum of x_i squared times x_j, for each pair of standardised variables"
            fields["thirds"] = Spec((count, count), about=about)
        return Expect(fields, sums=True)

    def result(self, outcome: Outcome) -> FittedRanking:
        """The ranking."""
        state: RankingState = outcome.state
        ranking = Ranking(state.scores, state.variables, self.score, state.choice, state.likelihoods)
        return FittedRanking(outcome, ranking)
