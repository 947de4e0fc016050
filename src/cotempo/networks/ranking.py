"""EdgeRanking: rank all edges in one round, from summed moments alone.

    levels      clients send counts and sums of their cells, and which columns vary and which lags leave few rows
    spread      clients send sums of squares about the common mean, so that all standardise alike
    histogram   copula=True: clients count their values in common bins
    moments     clients send sums of products of the standardised rows

Only sums over clients are used in any of them. `rank_edges` is the short way to a `Ranking`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from cotempo.data import Schema, Series, Table
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
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fitted import FittedRanking, Ranking
from cotempo.networks.moments import Gram, Sums, check_table, transitions, unpack, varying
from cotempo.networks.private import PrivateNetwork
from cotempo.networks.rhythms import say_rhythms
from cotempo.networks.scores import copula, pairwise
from cotempo.networks.scores.features import Column, JointRows, draw_waves
from cotempo.networks.scores.model_choice import CANDIDATES, FLAT, choose, predict_ridge, standard_blocks, wald
from cotempo.networks.scores.parent_sets import centrings, parent_sets
from cotempo.privacy.settings import Privacy
from cotempo.robust.per_row import diagonal_places, relations
from cotempo.typing import Bools, Floats, Indices

Score = Literal["auto", "granger", "lagged", "within", "skewness", "within_skewness", "parent_sets", "fourier"]

BLOCKS = 5  # of rows, each predicted from the others
_MOST_COLUMNS = 3000  # of joint rows: five Grams of that side are 360 MB
_LINEAR = ("linear-1", "linear-2", "linear-3", "linear-5")
_NAMED = 5  # so many constant features are named, further ones counted
_THIRDS = ("skewness", "within_skewness")


def rank_edges(
    clients: Mapping[str, Any],
    score: Score = "auto",
    lags: int | Literal["auto"] = "auto",
    seed: int = 0,
    *,
    privacy: Privacy | None = None,
    options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Ranking:
    """Rank all edges by how sure they are, in one round and from sums over clients alone.

    Parameters
    ----------
    clients : mapping from str to Series or dataframe
    score, lags
        See `EdgeRanking`, also for the further `parameters`.
    seed : int
        Decides the Fourier features; other scores draw nothing.
    privacy : Privacy, optional
        As of `fit`, such as ``ct.Privacy(secure_sum=True)``.
    options : mapping, optional
        Further options of `fit`. A client that cannot answer is an error here, not left out, unless the options set
        another ``quorum``.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=4, samples=400, degree=0, seed=0)
    >>> list(ct.rank_edges(clients, score="granger").to_frame().columns)
    ['source', 'target', 'score']
    """
    method = EdgeRanking(score=score, lags=lags, **parameters)
    given = {"seed": seed, "quorum": 1.0, "privacy": privacy, **(options or {})}
    ranking: Ranking = method.fit(clients, **given).ranking
    return ranking


@dataclass(frozen=True)
class RankingState:
    """State of the server: the pooled levels, the histograms, and at the end the scores.

    `kept` are the variables that vary, `candidates` those that are neither too large nor look back too far.
    """

    variables: tuple[str, ...]
    stage: str
    mean: Floats
    scale: Floats
    waves: Floats
    counts: Floats
    scores: Floats
    kept: Indices
    candidates: tuple[str, ...]
    choice: str = ""
    likelihoods: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


#: A client's contiguous pieces, ``(time, values, weights)`` of each.
Pieces = list[tuple[Floats, Floats, Floats]]


@register()
class EdgeRanking(Method):
    """Rank all edges by how sure they are, in one round.

    A ranking predicts nothing, so no held-out row can show whether joining made it better: `fitted.benefit` is empty.
    The scores:

    - ``"auto"``: the features that predict best decide; linear with 1, 2, 3 or 5 lags, squares, or products.
    - ``"granger"``: F statistic of the source's past given the target's own past.
    - ``"lagged"``: partial correlation of target and source's past given everybody's past.
    - ``"within"``: partial correlation inside one time step; has no direction.
    - ``"skewness"``: which of two variables drives the other, by their third moments.
    - ``"within_skewness"``: partial correlations inside a time step, directed by the skewness.
    - ``"parent_sets"``: averaged over all sets of two parents; for few rows and few sources that drive many.
    - ``"fourier"``: Wald statistic of the source's random Fourier features; for effects of any shape.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=4, samples=400, degree=0, seed=0)
    >>> ct.EdgeRanking(score="granger").fit(clients).scores(truth)["auroc"] > 0.9
    True
    """

    kind: ClassVar[str] = "series"
    for_other_columns: ClassVar[str] = "OneRound takes clients with different variables"
    phases: ClassVar[tuple[str, ...]] = ("levels", "spread", "histogram", "moments")
    State: ClassVar[type] = RankingState
    private_units: ClassVar[tuple[str, ...]] = ("row",)

    score: Score = Field(default="auto", description="What edges are ranked by, see above.")
    lags: Annotated[int, Field(ge=1, le=50)] | Literal["auto"] = Field(
        default="auto",
        description="How many past time steps act, for ``granger``, ``lagged`` and ``fourier``; ``auto`` takes 1, 2, 3 "
        "or 5, what predicts held-out blocks best. ``parent_sets`` looks back one step, the score ``auto`` as far as "
        "its candidates do.",
    )
    copula: bool = Field(
        default=False,
        description="Take every column for a rising function of a hidden Gaussian, and rank by the hidden "
        "correlations: for binary, counted and skewed columns. With ``granger``, ``lagged`` and ``within``.",
    )
    shrinkage: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the identity mixed into correlations where rows are few."
    )
    perturbed_until: float | None = Field(
        default=None,
        description="The time at which an experimental perturbation ends, for ``parent_sets``: rows before and after "
        "are centred apart, and those after are used alone as well.",
    )
    candidates: tuple[str, ...] = Field(
        default=tuple(CANDIDATES),
        description="What the score ``auto`` chooses from. Those that would make too many columns, or leave a client "
        "with few rows, are left out; ``ranking.left_out`` says why.",
    )
    features: int = Field(default=12, ge=1, le=200, description="How many Fourier features a variable has.")
    minimum_rows: int = Field(
        default=10, ge=1, description="A client with fewer complete rows is refused: sums over a few reveal them."
    )

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
        """Return a small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=240, seed=0)
        return cls(candidates=("linear-1", "linear-2", "squares")), clients, None

    # At a client.

    def prepare(self, table: Table) -> Pieces:
        """Cut the table into contiguous pieces."""
        assert isinstance(table, Series)  # `check` saw the schema
        check_table(table, constants=True)
        cuts = np.cumsum([len(time) for time, _ in table.pieces()])[:-1]
        weights = np.split(table.row_weights, cuts)
        pieces = [(*piece, weight) for piece, weight in zip(table.pieces(), weights, strict=True)]
        rows = complete_rows(pieces, self._reaches[0])
        if rows < self.minimum_rows:
            raise DataError([Problem(f"at least {self.minimum_rows} complete rows are needed, got {rows}")])
        return pieces

    def answer(self, question: Question, prepared: Pieces, memory: None, rng: Rng) -> tuple[Message, None]:
        """Send levels, histograms, or moments of standardised rows."""
        common, cells = question.common, np.vstack([values for _, values, _ in prepared])
        if question.phase == "levels":
            return Message(self._levels(prepared, cells)), None
        if question.phase == "spread":
            squares = np.nansum((cells - common["mean"]) ** 2, axis=0)
            return Message({"squares": squares, "cells": (~np.isnan(cells)).sum(axis=0).astype(np.float64)}), None
        kept = common["kept"]
        pieces = [((values - common["mean"]) / common["scale"])[:, kept] for _, values, _ in prepared]
        if question.phase == "histogram":
            return Message({"counts": copula.histogram(np.vstack(pieces))}), None
        if self.copula:
            pieces = [copula.hidden_scores(values, common["counts"]) for values in pieces]
        design = self._design(len(kept), json.loads(common["candidates"]), common["waves"])
        joint = [design.rows(values) for values in pieces]
        times, weights = ([piece[part][design.lags :] for piece in prepared] for part in (0, 2))
        whole = [~np.isnan(rows).any(axis=1) for rows in joint]
        joint, times, weights = ([a[b] for a, b in zip(one, whole, strict=True)] for one in (joint, times, weights))
        rows, each = np.vstack(joint), np.concatenate(weights)
        if self.score == "parent_sets":
            sums = centrings(joint, times, weights, self.perturbed_until)
        else:
            parts = zip(*(np.array_split(one, BLOCKS if self._offered else 1) for one in (rows, each)), strict=True)
            sums = Sums.stack([Sums.of_rows(*part) for part in parts])
        thirds = {"thirds": (each[:, None] * rows**2).T @ rows} if self.score in _THIRDS else {}
        return Message({**sums._asdict(), **thirds}), None

    def _levels(self, prepared: Pieces, cells: Floats) -> dict[str, Floats]:
        """Return counts and sums, what identifies constant columns, and at which lags few rows are left."""
        seen, sums = (~np.isnan(cells)).sum(axis=0).astype(np.float64), np.nansum(cells, axis=0)
        rows = [complete_rows(prepared, lags) for lags in self._reaches]
        short = [count < max(self.minimum_rows, rows[0] / 2) for count in rows]
        return {
            "cells": seen,
            "sums": sums,
            "between": sums**2 / seen,
            "varying": varying(cells).astype(np.float64),
            "short": np.array(short, dtype=np.float64),
        }

    # Known to both sides.

    def misled_by(self, table: Table) -> list[str]:
        """Say which columns follow the clock."""
        return say_rhythms(table)

    @property
    def equal_steps(self) -> Literal["", "advised", "required"]:
        """A lag is a number of rows."""
        return "required"

    @property
    def _offered(self) -> tuple[str, ...]:
        """The candidates from which features or lags are chosen; none where nothing is."""
        if self.score == "auto":
            return self.candidates
        return _LINEAR if self.lags == "auto" and self.score in ("granger", "lagged", "fourier") else ()

    @property
    def _reaches(self) -> list[int]:
        """The lags that each candidate or the score needs; fewest first."""
        if self._offered:
            return sorted({CANDIDATES[name][0] for name in self._offered})
        given = 1 if self.lags == "auto" else self.lags
        return [{"granger": given, "lagged": given, "fourier": given, "parent_sets": 1}.get(self.score, 0)]

    def _design(self, variables: int, candidates: Sequence[str], waves: Floats | None = None) -> JointRows:
        kinds = {kind for name in candidates for kind in CANDIDATES[name][1]}
        lags = max((CANDIDATES[name][0] for name in candidates), default=self._reaches[0])
        waves = waves if self.score == "fourier" else None
        return JointRows(variables, lags, squares="square" in kinds, products="product" in kinds, waves=waves)

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
            np.arange(count), self._offered,
        )  # fmt: skip

    def ask(self, state: RankingState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for one round of three or four steps."""
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
            scale = np.sqrt(total["squares"] / np.maximum(total["cells"], 1.0))
            scale[np.setdiff1d(np.arange(len(scale)), state.kept)] = 1.0
            return replace(state, stage="histogram" if self.copula else "moments", scale=scale), {}
        if state.stage == "histogram":
            return replace(state, stage="moments", counts=total["counts"]), {}
        return self._rank(state, total)

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
        for name in state.candidates:
            if short[CANDIDATES[name][0]] and CANDIDATES[name][0] > self._reaches[0]:
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
        return replace(
            state, stage="spread", mean=total["sums"] / total["cells"], kept=kept,
            counts=np.zeros((len(kept), state.counts.shape[1])), candidates=tuple(candidates), left_out=tuple(words),
        )  # fmt: skip

    def _rank(self, state: RankingState, total: Message) -> tuple[RankingState, Metrics]:
        sums = Sums(total["counts"], total["sums"], total["products"])
        pooled = Sums.stack([sums.total()]) if self._offered else sums
        columns = self._design(len(state.kept), state.candidates, state.waves).columns
        blocks, least = standard_blocks(sums), float(pooled.counts.min())
        choice, lags, likelihoods = "", self._reaches[0], dict[str, float]()
        if self.score == "auto":
            self._check_rows(3.0, least)
            choice, found, likelihoods = choose(blocks, columns, state.candidates)
        else:
            kinds = ("lag", "wave") if self.score == "fourier" else ("lag",)
            if self._offered:
                regressions = {name: blocks.select(columns, CANDIDATES[name][0], kinds) for name in state.candidates}
                likelihoods = {name: predict_ridge(one) for name, one in regressions.items()}
                choice = max(likelihoods, key=lambda name: likelihoods[name])
                lags = CANDIDATES[choice][0]
            partial = 0.0 if self.shrinkage else float((lags + 1) * len(state.kept))
            needed = {"granger": 2.0 * lags + 1.0, "lagged": partial, "within": partial, "within_skewness": partial}
            self._check_rows(needed.get(self.score, 3.0), least)
            fourier = self.score == "fourier"
            found = wald(blocks.select(columns, lags, kinds)) if fourier else self._scores(state, pooled, total, lags)
        scores = np.full((len(state.variables),) * 2, -np.inf)
        scores[np.ix_(state.kept, state.kept)] = found
        np.fill_diagonal(scores, np.nan)
        words = (*state.left_out, *self._flat_features(state, columns, blocks.flat))
        ranked = replace(state, stage="finished", scores=scores, choice=choice, likelihoods=likelihoods, left_out=words)
        return ranked, {"rows": float(pooled.counts[0, 0])}

    def _flat_features(self, state: RankingState, columns: Sequence[Column], flat: Bools) -> list[str]:
        """Name features that do not vary though their variables do."""
        if self.score not in ("auto", "fourier"):
            return []
        names = [state.variables[index] for index in state.kept]
        found = [column for column, one in zip(columns, flat.tolist(), strict=True) if one and column.kind != "now"]
        words = [
            f"the {one.kind} of {' and '.join(names[source] for source in one.sources)} at lag {one.lag}: "
            "it does not vary"
            for one in found[:_NAMED]
        ]
        return [*words, f"{len(found) - _NAMED} further features that do not vary"] if len(found) > _NAMED else words

    def _check_rows(self, needed: float, least: float) -> None:
        if least <= needed:
            raise DataError(
                f"score {self.score!r} needs more than {needed:.0f} complete rows over all clients, there are "
                f"{least:.0f}; bring more rows, lower lags, set shrinkage for partial correlations, or check "
                "perturbed_until"
            )

    def _scores(self, state: RankingState, pooled: Sums, total: Message, lags: int) -> Floats:
        """Return the score of each pair, `(kept, kept)`."""
        if self.score == "parent_sets":
            # The sums about the phases' means have no further mean to subtract.
            freedom = [rows - (view != 1) for view, rows in enumerate(pooled.counts[:, 0])]
            return parent_sets([(scatter(pooled.part(view)), free) for view, free in enumerate(freedom)])
        count, (counts, sums, products) = len(state.kept), pooled.part(0)
        side, rows = (lags + 1) * count, float(counts[0])
        around = scatter(pooled.part(0))[:side, :side]  # the nearest lags come first
        if self.copula:
            around = copula.hidden_correlations(around, state.counts)
        if self.score == "granger":
            return pairwise.granger(around, rows, lags)
        if self.score == "lagged":
            return pairwise.lagged_partial(around, count, self.shrinkage)
        if self.score == "within":
            return pairwise.within_partial(around, self.shrinkage)
        central = pairwise.central_thirds(total["thirds"], unpack(products, len(sums)), sums, rows)
        if self.score == "skewness":
            return pairwise.skewness_direction(around, central, rows)
        return pairwise.within_skewness(around, central, rows, self.shrinkage)

    def private(self, privacy: Privacy) -> PrivateNetwork:
        """Return the form that ranks by noised moments; refuse scores that need more than those of columns and lags."""
        if self.score not in ("granger", "lagged") or self.lags == "auto" or self.copula:
            raise ParameterError(
                "epsilon needs a score that follows from moments, EdgeRanking(score='granger', lags=1) or 'lagged', "
                f"got score={self.score!r}, lags={self.lags!r}, copula={self.copula}"
            )
        return PrivateNetwork.of(self, privacy)

    def learn_from(self, gram: Gram, names: Sequence[str], centre: Floats) -> RankingState:
        """Return the finished state for a Gram matrix of transitions that was made elsewhere."""
        assert isinstance(self.lags, int)  # `private` saw to it
        if self.score == "granger":
            # Noise may leave few rows to judge by; the order of the edges hardly depends on their number.
            found = pairwise.granger(gram.gram, max(gram.rows, 2.0 * self.lags + 2.0), self.lags)
        else:
            found = pairwise.lagged_partial(gram.gram, len(names), self.shrinkage)
        np.fill_diagonal(found, np.nan)
        opened = self.open(Roster({"all": Schema(self.kind, tuple(names), "")}), None, Rng("gram"))
        return replace(opened, stage="finished", mean=centre, scores=found)

    def expects(self, state: RankingState, phase: str) -> Expect:
        """Expect sums only."""
        count, kept = len(state.variables), len(state.kept)
        if phase == "levels":
            fields = {
                "cells": Spec((count,), low=0, high=1e12, description="how many values of each variable you have"),
                "sums": Spec((count,), description="the sum of each variable"),
                # Of few rows it is far larger by chance, and it decides what `varying` does: if a column is constant.
                "between": Spec(
                    (count,), low=0, reported=True, description="the square of each sum over the number of values"
                ),
                "varying": Spec((count,), low=0, high=1, description="whether each variable varies in your rows"),
                "short": Spec((len(self._reaches),), low=0, high=1, description="lags that leave you with few rows"),
            }
        elif phase == "spread":
            fields = {
                "squares": Spec((count,), low=0, description="sums of squares about the common mean"),
                "cells": Spec((count,), low=0, high=1e12, description="of how many values of each variable they are"),
            }
        elif phase == "histogram":
            about = "how many of your values fall into each of the common bins"
            fields = {"counts": Spec((kept, copula.BINS), low=0, high=1e12, description=about)}
        else:
            columns = len(self._design(kept, state.candidates, state.waves).columns)
            parts = BLOCKS if self._offered else 1
            if self.score == "parent_sets":
                parts = 2 if self.perturbed_until is None else 3
            pairs = columns * (columns + 1) // 2
            fields = {
                "counts": Spec((parts, 1), low=0, high=1e12, description="how many complete rows each part has"),
                "sums": Spec((parts, columns), description="the sum of each standardised column over those rows"),
                "products": Spec(
                    (parts, pairs),
                    packed=True,
                    description="the sum of products of each pair of those columns",
                ),
            }
            if self.score in _THIRDS:
                about = "the sum of x_i squared times x_j, for each pair of standardised variables"
                fields["thirds"] = Spec((kept, kept), description=about)
        counts = {
            **dict.fromkeys(("levels", "spread"), lambda message: float(message["cells"].max())),
            "histogram": lambda message: float(message["counts"].sum(axis=1).max()),
            # Blocks are of different rows, centrings of the same.
            "moments": lambda message: float(message["counts"].sum() if self._offered else message["counts"].max()),
        }
        seen = {"levels": seen_cells, "spread": seen_cells, "histogram": seen_values}.get(phase)
        alike, scatter = (_relations, _own_scale) if phase == "moments" else (None, None)
        return Expect(fields, sums=True, rows=counts.get(phase), alike=alike, scatter=scatter, seen=seen)

    def result(self, outcome: Outcome) -> FittedRanking:
        """Return the ranking."""
        state: RankingState = outcome.state
        ranking = Ranking(state.scores, state.variables, self.score, state.choice, state.likelihoods, state.left_out)
        return FittedRanking(outcome, ranking)


def seen_cells(message: Message) -> dict[str, Floats]:
    """Return how many values of each variable a client has, by what it sends of them in `levels` and `spread`."""
    return {name: message["cells"] for name in ("cells", "sums", "between", "squares") if name in message}


def seen_values(message: Message) -> dict[str, Floats]:
    """Return how many values of each variable are in a client's histograms."""
    counts = message["counts"]
    return {"counts": np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape)}


def _relations(message: Message) -> dict[str, Floats]:
    """Return correlations and spreads of the columns of joint rows, of all parts together."""
    return relations(message["products"].sum(axis=0) / max(float(message["counts"].sum()), 1.0))


def _own_scale(message: Message) -> dict[str, Floats]:
    """Return how large products of columns of these sizes can be: where values are larger, squares are far larger."""
    products = message["products"]
    side, diagonal = diagonal_places(products.shape[-1])
    rows, columns = np.triu_indices(side)
    size = np.sqrt(products[:, diagonal].clip(0))
    return {"products": size[:, rows] * size[:, columns]}


def complete_rows(pieces: Pieces, lags: int) -> int:
    """Return how many rows have no missing cell, now or at any of so many lags."""
    return sum(len(transitions(values, lags)) for _, values, _ in pieces)


def scatter(sums: Sums) -> Floats:
    """Return the Gram about its mean; a constant column is given variance one and no covariance."""
    gram = Gram.of_sums(sums, FLAT)
    around = gram.gram
    flat = np.flatnonzero(around.diagonal() == 0)
    around[flat, flat] = gram.rows
    return around
