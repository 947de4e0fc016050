"""`PrivateNetwork`: networks and rankings from moments that are noised once, so that single time points are hidden.

    ranges    clients send histograms of their columns between agreed limits; only noised totals are used
    moments   clients standardise by them, clip every time point and send sums of products; only noised totals are used
    own       PFDBNL: clients send nothing; each learns its own network from its rows and the common one, and keeps it

What is learned from the noised moments is post-processing. A time point x, clipped to the norm C, is in
``S = sum x_t x_t'`` once and in each ``M_l = sum x_t x_{t-l}'`` twice: without it S changes by at most ``C^2`` and M_l
by at most ``2 C^2``, together by ``sqrt(1 + 4 lags) C^2``. The Gram matrix of transitions is block Toeplitz in them.
Unlike a sum over transitions it has no first and last rows that could be read from its differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cotempo.data import Series, Table
from cotempo.errors import DataError, warn
from cotempo.federation import Answers, Ask, Expect, Fitted, Message, Metrics, Outcome, Question, Rng, Roster, Spec
from cotempo.federation.method import agree
from cotempo.networks.moments import Gram, check_table, make_semidefinite, pack, unpack
from cotempo.privacy.histograms import BINS, bounded, histograms, limits, locate
from cotempo.privacy.private_form import PrivateForm, per_column, without_values
from cotempo.privacy.settings import Range
from cotempo.typing import Floats

#: Share of the budget for the histograms; they only place the clipping, so that rough ones do.
RANGES = 0.1
#: Shares of the moments' part for counts and sums; the rest is for products.
COUNTS, SUMS = 0.02, 0.03
#: Squared norm a time point is clipped to, per variable; its mean is 1.
CLIP = 1.5
#: Rows of moments that are all noise; the search needs more than one.
LEAST_ROWS = 2.0
#: A range that leaves out a larger share of a client's values is too narrow.
MOST_OUTSIDE = 0.01
#: Between these, the least eigenvalue of noised correlations.
FLOORS = (1e-2, 0.5)


@dataclass(frozen=True)
class PrivateNetworkState:
    """State of the server: where columns lie, then the Gram matrix of standardised transitions.

    `rows` says how many rows without noise would tell as much as the noised ones.
    """

    variables: tuple[str, ...]
    phase: str
    centre: Floats
    scale: Floats
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    rows: float = 0.0


class PrivateNetwork(PrivateForm):
    """The private form of OneRound, FDBNL and EdgeRanking: all learn from the same noised moments."""

    phases: ClassVar[tuple[str, ...]] = ("ranges", "moments")
    State: ClassVar[type] = PrivateNetworkState

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """A tenth for the histograms, the rest for the moments."""
        return {"ranges": (RANGES, 1), "moments": (1 - RANGES, 1)}

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return scales for one time point more or less."""
        if phase == "ranges":
            return {"histograms": math.sqrt(len(message["histograms"]))}  # a point is in one bin of each column
        lags, norm = len(message["products"]), self.clip(len(message["sums"]))
        pairs = math.sqrt(1 + 4 * lags)
        products = pairs * norm**2 / math.sqrt(1 - COUNTS - SUMS)
        return {
            "counts": pairs / math.sqrt(COUNTS),
            "sums": norm / math.sqrt(SUMS),
            "squares": products,
            "products": products,
        }

    def clip(self, variables: int) -> float:
        """Return the largest norm of a standardised time point."""
        return self.privacy.clip or math.sqrt(CLIP * variables)

    # At a client.

    def prepare(self, table: Table) -> Series:
        """Refuse a table for how many rows it has and when, as `inner` does; warn of what it refuses for their values.

        Warn, here and nowhere else, of ranges that do not suit the table: the warning is about its rows.
        """
        assert isinstance(table, Series)  # `check` saw the schema
        self.inner.prepare(without_values(table))
        try:
            check_table(table)
            self.inner.prepare(table)
        except DataError as error:
            warn(f"a table that would be refused without epsilon takes part, as a refusal tells of values: {error}")
        for line in unsuitable_ranges(table, self.privacy.ranges):
            warn(line)
        return table

    def answer(self, question: Question, prepared: Series, memory: None, rng: Rng) -> tuple[Message, None]:
        """Send histograms or moments, to which `Noise` adds noise."""
        pieces, count = [values for _, values in prepared.pieces()], len(prepared.features)
        if question.phase == "ranges":
            low, high = per_column(question.common, count, "low", "high")
            return Message({"histograms": histograms(np.vstack(pieces), low, high)}), None
        centre, scale = per_column(question.common, count, "centre", "scale")
        with np.errstate(all="ignore"):
            points = [bounded((values - centre) / scale) for values in pieces]
        moments = Moments.of_points(points, self.inner.lags, self.clip(count))
        return Message(moments._asdict()), None

    # At the server.

    def check(self, roster: Roster) -> None:
        """Require the same columns everywhere, also of methods that do not."""
        agree(roster, self.kind, "with epsilon all clients need the same columns; without it OneRound takes others")

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PrivateNetworkState:
        """Take the agreed limits of the columns."""
        names = roster.schema.columns
        low, high = limits(self.privacy.ranges, names).T
        return PrivateNetworkState(names, "ranges", low, high)

    def ask(self, state: PrivateNetworkState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for histograms, then for moments."""
        if state.phase == "finished":
            return None
        names = ("low", "high") if state.phase == "ranges" else ("centre", "scale")
        common = Message(dict(zip(names, (state.centre, state.scale), strict=True)))
        return Ask(state.phase, cohort, common, ends_round=state.phase == "moments")

    def absorb(
        self, state: PrivateNetworkState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateNetworkState, Metrics]:
        """Locate the columns, then keep the Gram matrix of the noised moments."""
        if state.phase == "ranges":
            centre, scale = locate(answers.sum["histograms"], state.centre, state.scale)
            return replace(state, phase="moments", centre=centre, scale=scale), {}
        scales = self.scales("moments", answers.sum)
        asked = len(answers.names) + len(answers.failures)
        deviation = self.total_deviation("moments", scales["products"], len(answers.names), asked)
        found = Moments(*(answers.sum[name] for name in Moments._fields)).gram(deviation)
        # From here on in the data's units.
        scale = np.tile(state.scale, len(found.gram) // len(state.scale))
        gram, centre = found.gram * np.outer(scale, scale), state.centre + state.scale * found.mean
        return replace(state, phase="finished", centre=centre, gram=gram, rows=found.rows), {
            "rows": found.rows,
            "summed": float(answers.sum["counts"][-1]),
        }

    def expects(self, state: PrivateNetworkState, phase: str) -> Expect:
        """Expect noised sums."""
        count, lags = len(state.variables), self.inner.lags
        noised = ", with noise"
        if phase == "ranges":
            about = "how many of your values lie in each of 64 intervals, per variable"
            return Expect({"histograms": Spec((count, BINS), description=about + noised)}, sums=True, weight=(1, 1))
        clipped = "your time points, standardised and clipped"
        return Expect(
            {
                "counts": Spec((lags + 1,), description="how many time points you have, and pairs of them" + noised),
                "sums": Spec((count,), description=f"sums of {clipped}" + noised),
                "squares": Spec((count * (count + 1) // 2,), description=f"sums of products of {clipped}" + noised),
                "products": Spec((lags, count, count), description="the same with those some steps before" + noised),
            },
            sums=True,
            weight=(1, 1),
        )

    def result(self, outcome: Outcome) -> Fitted:
        """Return the result of the method this is the private form of, learned from the noised moments."""
        fitted: Fitted = self.inner.result(replace(outcome, method=self.inner, state=self.learn(outcome.state)))
        return fitted

    def learn(self, state: PrivateNetworkState) -> Any:
        """Return the state of the method, learned from the noised moments."""
        gram = Gram(state.gram, state.rows, np.zeros(len(state.gram)))
        return self.inner.learn_from(gram, state.variables, state.centre)


def unsuitable_ranges(table: Series, ranges: Range | Mapping[str, Range] | None) -> list[str]:
    """Return, for columns whose agreed range is too narrow or too wide, what to do."""
    lines = []
    for name, values, (low, high) in zip(table.features, table.values.T, limits(ranges, table.features), strict=True):
        if not len(seen := values[~np.isnan(values)]):
            continue
        outside = float(np.mean((seen < low) | (seen > high)))
        agreed = f"the agreed range ({low:g}, {high:g})"
        by_column = "by column where units differ: ranges={...}"
        if outside > MOST_OUTSIDE:
            wrong = f"{outside:.0%} of the values lie outside {agreed}, and the network will be wrong"
            lines.append(f"{name}: {wrong}; agree on a wider one, {by_column}")
        elif seen.std() < (high - low) / BINS:
            wrong = f"the values hardly vary within {agreed}, and noise will drown them"
            lines.append(f"{name}: {wrong}; agree on a narrower one, {by_column}")
    return lines


class PrivatePersonalNetworks(PrivateNetwork):
    """The private form of PFDBNL: the common network from noised moments, clients' own at the clients.

    A client's own network is made of its rows without noise; it stays there, and nothing made of it is sent.
    """

    phases: ClassVar[tuple[str, ...]] = ("ranges", "moments", "own")

    def answer(self, question: Question, prepared: Series, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """Send what all send; at the end learn the own network and send nothing."""
        if question.phase == "own":
            return Message(), self.inner.learn_own(question.common, self.inner.prepare(prepared))
        return super().answer(question, prepared, memory, rng)

    def ask(self, state: PrivateNetworkState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for histograms and moments, then tell the common network."""
        if state.phase == "own":
            learned = self.learn(state)
            common = {"shared": learned.shared[0], "mean": learned.mean[1], "scale": learned.scale[1]}
            return Ask("own", cohort, Message({**common, "rows": state.rows}))
        return super().ask(state, cohort, rng)

    def absorb(
        self, state: PrivateNetworkState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateNetworkState, Metrics]:
        """Absorb as others do; after that clients learn their own networks."""
        if state.phase == "own":
            return replace(state, phase="finished"), {}
        found, metrics = super().absorb(state, answers, public, rng)
        return replace(found, phase="own") if found.phase == "finished" else found, metrics

    def expects(self, state: PrivateNetworkState, phase: str) -> Expect:
        """Expect noised sums, then nothing."""
        return Expect({}, sums=True, weight=(1, 1)) if phase == "own" else super().expects(state, phase)


class Moments(NamedTuple):
    """Sums over clipped time points, which add up over clients.

    `counts` are the points and, per lag, the pairs of them, `(lags + 1,)`; `sums` is `(variables,)`; `squares` the
    upper triangle of S with what is off its diagonal times ``sqrt(2)``, so that its norm is that of S; `products` the
    M_l, `(lags, variables, variables)`.
    """

    counts: Floats
    sums: Floats
    squares: Floats
    products: Floats

    @classmethod
    def of_points(cls, pieces: Sequence[Floats], lags: int, norm: float) -> Moments:
        """Sum over contiguous pieces of standardised points; a point with a missing cell counts as none."""
        count = pieces[0].shape[1]
        counts, sums, square = np.zeros(lags + 1), np.zeros(count), np.zeros((count, count))
        products = np.zeros((lags, count, count))
        for piece in pieces:
            known = np.asarray(~np.isnan(piece).any(axis=1), dtype=np.bool_)
            points = np.where(known[:, None], piece, 0.0)
            lengths = np.linalg.norm(points, axis=1, keepdims=True)
            points = points * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))
            counts[0] += known.sum()
            sums += points.sum(axis=0)
            square += points.T @ points
            for lag in range(1, min(lags, len(points) - 1) + 1):
                counts[lag] += (known[lag:] & known[:-lag]).sum()
                products[lag - 1] += points[lag:].T @ points[:-lag]
        return cls(counts, sums, pack(square * off_diagonal(count)), products)

    def gram(self, deviation: float) -> Gram:
        """Return the Gram matrix of transitions, with the rows that would tell as much without noise.

        `deviation` is that of the noise of a product. It moves a regression weight by more than it moves a
        correlation: with T the inverse of the correlations, by about ``mean_j (T T)_jj / T_jj`` times as much.
        """
        counts, lags, variables = np.maximum(self.counts, 1.0), len(self.products), len(self.sums)
        mean = self.sums / counts[0]
        square = unpack(self.squares, variables) / off_diagonal(variables)
        lagged = [square / counts[0], *(self.products / counts[1:, None, None])]
        lagged = [block - np.outer(mean, mean) for block in lagged]
        blocks = [[lagged[j - i] if j >= i else lagged[i - j].T for j in range(lags + 1)] for i in range(lags + 1)]
        # Noise may leave a variable without variance; it then has some, and no edge stands out.
        joint = np.block(blocks)
        joint[np.diag_indices_from(joint)] = np.maximum(joint.diagonal(), deviation / counts[0])
        noise = deviation / float(counts[-1] * joint.diagonal()[:variables].mean())  # of a correlation
        # Eigenvalues of noise alone reach to 2 sqrt(side) times its deviation: smaller ones of the sum say nothing.
        floor = float(np.clip(2 * noise * math.sqrt(len(joint)), *FLOORS))
        covariance = make_semidefinite(joint, floor if deviation else 1e-9)
        spread = np.sqrt(covariance.diagonal())
        precision = np.linalg.inv(covariance / np.outer(spread, spread))
        amplified = float(np.mean((precision @ precision).diagonal() / precision.diagonal())) ** 2
        # Entries of S off its diagonal have half the variance, and there are about half as many as of one M_l.
        of_squares, of_products = variables * (variables - 1) / 2, lags * variables**2
        share = (0.5 * of_squares + of_products) / max(of_squares + of_products, 1)
        rows = max(1 / (1 / float(counts[-1]) + amplified * share * noise**2), LEAST_ROWS)
        return Gram(rows * covariance, rows, mean)


def off_diagonal(side: int) -> Floats:
    """Return a matrix of ``sqrt(2)`` with ones on the diagonal."""
    return np.where(np.eye(side, dtype=np.bool_), 1.0, math.sqrt(2))
