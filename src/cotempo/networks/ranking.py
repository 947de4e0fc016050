"""Ranking edges in one round, from summed moments alone.

`EdgeRanking` is the method, `cotempo.networks.rank` the short way to it. The first two steps tell the pooled mean and
spread of every variable, so that all clients standardise alike, and what must be left out; under `copula` a step sums
histograms; the last one sums moments of the standardised rows. Nothing but sums over clients is used in any of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from cotempo.data import Series, Table
from cotempo.errors import DataError, ParameterError, Problem, nearest
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    register,
)
from cotempo.networks.compare import varying
from cotempo.networks.data.generate import make_networks
from cotempo.networks.ranked import FittedRanking, Ranking
from cotempo.networks.scores import copula, pairwise
from cotempo.networks.scores.features import Column, Design, draw_waves
from cotempo.networks.scores.model_choice import CANDIDATES, choose, choose_lags, flat_columns, problem_of, wald
from cotempo.networks.scores.parent_sets import parent_sets
from cotempo.networks.views import BLOCKS, FLAT, Views, blocks, centrings, complete, whole

FloatArray = NDArray[np.float64]
Indices = NDArray[np.intp]

Score = Literal[
    "chosen", "granger", "lagged", "within", "skewness", "within_skewness", "parent_sets", "fourier"
]  # fmt: skip

_MOST_COLUMNS = 3000  # of joint rows: five Grams of that side are 360 MB
_LINEAR = ("linear-1", "linear-2", "linear-3", "linear-5")
_NAMED = 5  # so many flat features are named, further ones counted


@dataclass(frozen=True)
class RankingState:
    """What the server keeps: the pooled levels, the histograms, and at the end the scores.

    `kept` are the variables that vary, `candidates` those that are neither too large nor look back too far.
    """

    variables: tuple[str, ...]
    stage: str
    mean: FloatArray
    scale: FloatArray
    waves: FloatArray
    counts: FloatArray
    scores: FloatArray
    kept: Indices
    candidates: tuple[str, ...]
    cells: FloatArray
    choice: str = ""
    likelihoods: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pieces:
    """A client's contiguous stretches: times and values of each."""

    times: tuple[FloatArray, ...]
    values: tuple[FloatArray, ...]

    def complete(self, lags: int) -> int:
        """How many rows there are without a missing cell now or at any of so many lags."""
        design = Design(self.values[0].shape[1], lags)
        return sum(len(complete(design.rows(values))) for values in self.values)


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
        How many past time steps act, for ``granger``, ``lagged`` and ``fourier``; ``"auto"`` takes 1, 2, 3 or 5, what
        predicts held-out blocks best. Scores inside a time step do not look back, ``parent_sets`` looks back one step
        and ``chosen`` as far as its candidates do.
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
        What ``chosen`` chooses from. Candidates that would make too many columns, or look back so far that a client
        would be left with few rows, are left out; the ranking's ``left_out`` says which and why.
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
    phases: ClassVar[tuple[str, ...]] = ("levels", "spread", "histogram", "moments")
    State: ClassVar[type] = RankingState

    score: Score = "chosen"
    lags: Annotated[int, Field(ge=1, le=50)] | Literal["auto"] = "auto"
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
        prepared = Pieces(tuple(time for time, _ in pieces), tuple(values for _, values in pieces))
        rows = prepared.complete(self._reaches[0])
        if rows < self.minimum_rows:
            raise DataError([Problem(f"at least {self.minimum_rows} complete rows are needed, there are {rows}")])
        return prepared

    def answer(self, question: Question, prepared: Pieces, memory: None, rng: Rng) -> tuple[Message, None]:
        """Send levels, histograms, or moments of standardised rows."""
        if question.phase == "levels":
            return Message(self._levels(prepared)), None
        common = question.common
        if question.phase == "spread":
            cells = np.vstack(prepared.values)
            return Message({"squares": np.nansum((cells - common["mean"]) ** 2, axis=0)}), None
        kept = common["kept"]
        pieces = [((values - common["mean"]) / common["scale"])[:, kept] for values in prepared.values]
        if question.phase == "histogram":
            return Message({"counts": copula.histogram(np.vstack(pieces))}), None
        if self.copula:
            pieces = [copula.hidden_scores(values, common["counts"]) for values in pieces]
        design = self._design(len(kept), json.loads(common["candidates"]), common["waves"])
        joint = [design.rows(values) for values in pieces]
        views = self._views(joint, [time[design.lags :] for time in prepared.times])
        message: dict[str, Any] = {"rows": views.rows, "sums": views.sums, "gram": views.gram}
        if self._has_thirds:
            rows = complete(np.vstack(joint))
            message["thirds"] = (rows**2).T @ rows
        return Message(message), None

    def _levels(self, prepared: Pieces) -> dict[str, FloatArray]:
        """Counts and sums, what tells constant columns, and at which lags few rows are left."""
        cells = np.vstack(prepared.values)
        seen, sums = (~np.isnan(cells)).sum(axis=0).astype(np.float64), np.nansum(cells, axis=0)
        rows = [prepared.complete(lags) for lags in self._reaches]
        short = [count < max(self.minimum_rows, rows[0] / 2) for count in rows]
        return {
            "cells": seen,
            "sums": sums,
            "between": sums**2 / seen,
            "varying": varying(cells).astype(np.float64),
            "short": np.array(short, dtype=np.float64),
        }

    def _views(self, joint: Sequence[FloatArray], times: Sequence[FloatArray]) -> Views:
        if self._offered:
            return blocks(joint)
        if self.score == "parent_sets":
            return centrings(joint, times, self.perturbed_until)
        return whole(joint)

    # What both sides know.

    @property
    def _offered(self) -> tuple[str, ...]:
        """The candidates from which features or lags are chosen; none where nothing is."""
        if self.score == "chosen":
            return self.candidates
        return _LINEAR if self.lags == "auto" and self.score in ("granger", "lagged", "fourier") else ()

    @property
    def _reaches(self) -> list[int]:
        """How many lags are looked back, by each candidate or by the score; fewest first."""
        if self._offered:
            return sorted({CANDIDATES[name][0] for name in self._offered})
        given = 1 if self.lags == "auto" else self.lags
        return [{"granger": given, "lagged": given, "fourier": given, "parent_sets": 1}.get(self.score, 0)]

    def _design(self, variables: int, candidates: Sequence[str], waves: FloatArray | None = None) -> Design:
        kinds = {kind for name in candidates for kind in CANDIDATES[name][1]}
        lags = max((CANDIDATES[name][0] for name in candidates), default=self._reaches[0])
        waves = waves if self.score == "fourier" else None
        return Design(variables, lags, squares="square" in kinds, products="product" in kinds, waves=waves)

    @property
    def _has_thirds(self) -> bool:
        return self.score in ("skewness", "within_skewness")

    @property
    def _view_count(self) -> int:
        if self._offered:
            return BLOCKS
        return (2 if self.perturbed_until is None else 3) if self.score == "parent_sets" else 1

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> RankingState:
        """Draw the waves; nothing else is known yet."""
        names = roster.schema.columns
        count = len(names)
        waves = draw_waves(self.features if self.score == "fourier" else 0, rng("waves"))
        columns = len(self._design(count, self._offered[:1], waves).columns)
        if columns > _MOST_COLUMNS and len(self._offered) <= 1:
            raise ParameterError(
                f"score {self.score!r} must make at most {_MOST_COLUMNS} columns, of {count} variables it makes "
                f"{columns}; offer more candidates, or lower lags or features"
            )
        bins = copula.BINS if self.copula else 0
        return RankingState(
            names, "levels", np.zeros(count), np.ones(count), waves, np.zeros((count, bins)), np.zeros((count, count)),
            np.arange(count), self._offered, np.zeros(count),
        )  # fmt: skip

    def ask(self, state: RankingState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """One round of three or four steps."""
        if state.stage == "finished":
            return None
        common: dict[str, Any] = {} if state.stage == "levels" else {"mean": state.mean}
        if state.stage in ("histogram", "moments"):
            common |= {name: getattr(state, name) for name in ("scale", "waves", "counts", "kept")}
            common["candidates"] = json.dumps(state.candidates)
        return Ask(state.stage, cohort, Message(common), ends_round=state.stage == "moments")

    def absorb(
        self, state: RankingState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[RankingState, Metrics]:
        """Pool the levels, then the histograms, then score the edges."""
        total = answers.sum
        if state.stage == "levels":
            return self._leave_out(state, total), {}
        if state.stage == "spread":
            scale = np.sqrt(total["squares"] / state.cells)
            scale[np.setdiff1d(np.arange(len(scale)), state.kept)] = 1.0
            return replace(state, stage="histogram" if self.copula else "moments", scale=scale), {}
        if state.stage == "histogram":
            return replace(state, stage="moments", counts=total["counts"]), {}
        views = Views(total["rows"], total["sums"], total["gram"])
        return self._rank(state, views, total["thirds"] if self._has_thirds else None)

    def _leave_out(self, state: RankingState, total: Message) -> RankingState:
        """Pool the means; leave out what does not vary, what looks back too far and what would be too large."""
        between = total["between"] - total["sums"] ** 2 / total["cells"]
        varies = (total["varying"] > 0) | (between > FLAT * total["between"])
        kept = np.flatnonzero(varies)
        if len(kept) < 2:
            raise DataError(f"at least two variables must vary over all clients to rank edges, {len(kept)} of them do")
        words = [f"{state.variables[index]}: it does not vary at any client" for index in np.flatnonzero(~varies)]
        short = dict(zip(self._reaches, total["short"] > 0, strict=True))
        candidates = list(state.candidates)
        for name in [name for name in candidates if short[CANDIDATES[name][0]]]:
            if CANDIDATES[name][0] > self._reaches[0]:
                candidates.remove(name)
                words.append(f"candidate {name}: so many lags leave a client with too few complete rows")
        sizes = {name: len(self._design(len(kept), [name], state.waves).columns) for name in candidates}
        while len(candidates) > 1 and len(self._design(len(kept), candidates, state.waves).columns) > _MOST_COLUMNS:
            largest = max(candidates, key=lambda name: sizes[name])
            candidates.remove(largest)
            words.append(
                f"candidate {largest}: of {len(kept)} variables it makes {sizes[largest]} columns, all candidates "
                f"together may make {_MOST_COLUMNS}"
            )
        counts = np.zeros((len(kept), state.counts.shape[1]))
        return replace(
            state, stage="spread", mean=total["sums"] / total["cells"], cells=total["cells"], kept=kept, counts=counts,
            candidates=tuple(candidates), left_out=tuple(words),
        )  # fmt: skip

    def _rank(self, state: RankingState, views: Views, thirds: FloatArray | None) -> tuple[RankingState, Metrics]:
        rows = float(views.rows.sum() if self._offered else views.rows[0])
        columns = self._design(len(state.kept), state.candidates, state.waves).columns
        choice, lags = "", self._reaches[0]
        likelihoods: Mapping[str, float] = {}
        if self.score == "chosen":
            self._check_rows(3.0, rows)
            choice, found, likelihoods = choose(views, columns, state.candidates)
        else:
            if self._offered:
                kinds = ("lag", "wave") if self.score == "fourier" else ("lag",)
                likelihoods = choose_lags(views, columns, state.candidates, kinds)
                choice = max(likelihoods, key=lambda name: likelihoods[name])
                lags, views = CANDIDATES[choice][0], views.total()
            found = self._scores(state, views, thirds, rows, lags)
        scores = np.full((len(state.variables),) * 2, -np.inf)
        scores[np.ix_(state.kept, state.kept)] = found
        np.fill_diagonal(scores, np.nan)
        words = (*state.left_out, *self._flat_features(state, views, columns))
        ranked = replace(state, stage="finished", scores=scores, choice=choice, likelihoods=likelihoods, left_out=words)
        return ranked, {"rows": rows}

    def _flat_features(self, state: RankingState, views: Views, columns: Sequence[Column]) -> list[str]:
        """Say which features do not vary though their variables do."""
        if self.score not in ("chosen", "fourier"):
            return []
        names = [state.variables[index] for index in state.kept]
        still = flat_columns(views).tolist()
        flat = [column for column, one in zip(columns, still, strict=True) if one and column.kind != "now"]
        words = [
            f"the {one.kind} of {' and '.join(names[source] for source in one.sources)} at lag {one.lag}: "
            "it does not vary"
            for one in flat[:_NAMED]
        ]
        return [*words, f"{len(flat) - _NAMED} further features that do not vary"] if len(flat) > _NAMED else words

    def _check_rows(self, needed: float, least: float) -> None:
        if least <= needed:
            raise DataError(
                f"score {self.score!r} needs more than {needed:.0f} complete rows over all clients, there are "
                f"{least:.0f}; bring more rows, lower lags, set shrinkage for partial correlations, or check "
                "perturbed_until"
            )

    def _scores(
        self, state: RankingState, views: Views, thirds: FloatArray | None, rows: float, lags: int
    ) -> FloatArray:
        count = len(state.kept)
        side = (lags + 1) * count
        partial = 0.0 if self.shrinkage else float(side)
        needed = {"granger": 2.0 * lags + 1.0, "lagged": partial, "within": partial, "within_skewness": partial}
        self._check_rows(needed.get(self.score, 3.0), float(views.rows.min()))
        if self.score == "parent_sets":
            # The view about phases' means has no further mean to take off.
            freedom = [views.rows[view] - (view != 1) for view in range(len(views.rows))]
            return parent_sets([(views.scatter(view), free) for view, free in enumerate(freedom)])
        if self.score == "fourier":
            columns = self._design(count, state.candidates, state.waves).columns
            return wald(problem_of(views, columns, lags, ("lag", "wave")))
        scatter = views.scatter()[:side, :side]  # the nearest lags come first
        if self.copula:
            scatter = copula.hidden_correlations(scatter, state.counts)
        if self.score == "granger":
            return pairwise.granger(scatter, rows, lags)
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
                "cells": Spec((count,), low=0, high=1e12, description="how many values of each variable you have"),
                "sums": Spec((count,), description="the sum of each variable"),
                "between": Spec(
                    (count,), low=0, description="the square of each sum, divided by how many values there are"
                ),
                "varying": Spec((count,), low=0, high=1, description="whether each variable varies in your rows"),
                "short": Spec(
                    (len(self._reaches),), low=0, high=1, description="at which lags you have few complete rows"
                ),
            }
            return Expect(fields, sums=True)
        if phase == "spread":
            about = "the sum of squares of each variable about the common mean"
            return Expect({"squares": Spec((count,), low=0, description=about)}, sums=True)
        count = len(state.kept)
        if phase == "histogram":
            about = "how many of your values fall into each of the common bins"
            return Expect({"counts": Spec((count, copula.BINS), low=0, high=1e12, description=about)}, sums=True)
        views, columns = self._view_count, len(self._design(count, state.candidates, state.waves).columns)
        fields = {
            "rows": Spec((views,), low=0, high=1e12, description="how many complete rows you have, in each view"),
            "sums": Spec((views, columns), description="the sum of each standardised column over those rows"),
            "gram": Spec((views, columns, columns), description="the sum of products of each pair of those columns"),
        }
        if self._has_thirds:
            about = "the sum of x_i squared times x_j, for each pair of standardised variables"
            fields["thirds"] = Spec((count, count), description=about)
        return Expect(fields, sums=True)

    def result(self, outcome: Outcome) -> FittedRanking:
        """The ranking."""
        state: RankingState = outcome.state
        ranking = Ranking(state.scores, state.variables, self.score, state.choice, state.likelihoods, state.left_out)
        return FittedRanking(outcome, ranking)
