"""`Run`, which connects method, engine and folder to the loop; `run`, `resume`, `dry_run` and `simulate_delays`."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cotempo.data import READERS, Table
from cotempo.devices import Device, find_device
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import OFF, EngineSettings, InProcessSettings
from cotempo.errors import CotempoError, DataError, ParameterError, Problem, RunError
from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.reducers import PlainReducer, Reducer
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import (
    NO_RECORDER,
    Checkpoint,
    LoopOptions,
    Participation,
    initial_checkpoint,
    make_questions,
    rounds,
)
from cotempo.federation.shields import Shield
from cotempo.federation.simulated_time import Delays, Timed, asynchronous_rounds, timed_rounds
from cotempo.privacy.settings import Privacy
from cotempo.runs.experiment import Experiment, load_clients, load_truth
from cotempo.runs.folder import RunFolder, describe_step, read_experiment, read_lines
from cotempo.runs.progress import show
from cotempo.threads import limit_threads


def run(
    experiment: str | Path | Experiment,
    clients: Mapping[str, Any] | None = None,
    *,
    truth: Any = None,
    public: Any = None,
    run: str | Path | None = None,
    progress: bool | None = None,
) -> Any:
    """Run an experiment from its start and return the fitted object.

    Parameters
    ----------
    experiment
        The path of an experiment file, or an `Experiment`.
    clients, truth
        The clients' tables and the truth behind them, if known; by default from the experiment's ``[data]``.
    public, run, progress
        As of `fit`.
    """
    experiment = experiment if isinstance(experiment, Experiment) else Experiment.from_file(experiment)
    if clients is None:
        clients, truth = load_clients(experiment)
    started = Run.of(
        experiment.make_method(), clients, experiment.engine, _options(experiment), public=public, truth=truth
    )
    return started.guarded(experiment.privacy).start(run, experiment, progress)


def resume(
    run: str | Path,
    clients: Mapping[str, Any] | None = None,
    *,
    public: Any = None,
    engine: str | None = None,
    server: str | Path | None = None,
    progress: bool | None = None,
    shields: Sequence[Shield] = (),
    reducer: Reducer | None = None,
) -> Any:
    """Continue a run from its newest intact checkpoint, to the same bits as if it had never stopped.

    Parameters
    ----------
    run
        The run's folder.
    clients
        The tables the run was started on; by default they are read again from where the experiment says. Other tables
        are refused.
    engine, server
        Replace the engine, and say where the server's folder is now if it was moved.
    public, progress, shields, reducer
        As of `fit`; give those the run was started with.
    """
    with closing(RunFolder.reopen(run)) as folder:
        before = Experiment.from_dict(read_experiment(folder.path))
        experiment = before.on(engine=engine, server=server)
        if before.engine.is_remote != experiment.engine.is_remote:
            raise RunError(f"{run} must continue where its clients' memories are, on the engine {before.engine.name}")
        clients, truth = load_clients(experiment) if clients is None else (clients, load_truth(experiment))
        options = replace(_options(experiment), shields=tuple(shields), reducer=reducer or PlainReducer())
        stopped = Run.of(experiment.make_method(), clients, experiment.engine, options, public=public, truth=truth)
        stopped = stopped.guarded(experiment.privacy).kept_in(folder)
        _require_same_data(folder.fingerprints, stopped.fingerprints)
        start = folder.latest(stopped.method)
        folder.rewind(start.step if start else 0)
        return stopped.run_from(start, progress)


@dataclass(frozen=True)
class Run:
    """One run: a method on its tables, the engine and options it runs with, and the folder it is kept in, if any.

    `truth` is what generated data were made from, for the report; `privacy` is decided by `guarded`.
    """

    method: Method
    tables: Mapping[str, Table]
    engine: EngineSettings
    options: LoopOptions
    truth: Any = None
    folder: RunFolder | None = None
    privacy: Privacy = OFF

    @classmethod
    def of(
        cls,
        method: Method,
        clients: Mapping[str, Any] | None,
        engine: EngineSettings,
        options: LoopOptions,
        *,
        public: Any = None,
        truth: Any = None,
    ) -> Run:
        """Return a run on clients' tables or dataframes; if sites hold them, none may be given."""
        if engine.is_remote and clients:
            raise ParameterError(f"clients must not be given on the engine {engine.name}: sites hold their own tables")
        if not engine.is_remote and not (isinstance(clients, Mapping) and clients):
            raise DataError("clients must be a mapping from client name to table with at least one client")
        clients = clients or {}
        tables = {str(name): _table(str(name), clients[name], method.kind) for name in sorted(clients)}
        options = replace(options, run_id=uuid.uuid4().hex)
        if public is not None:
            options = replace(options, public=_table("public", public, method.kind))
        return cls(method, tables, engine, options, truth)

    @property
    def fingerprints(self) -> dict[str, Any]:
        """Hashes of the tables, by which a resume on other data is refused."""
        prints = {"clients": {name: table.fingerprint() for name, table in self.tables.items()}}
        public = self.options.public
        return prints if public is None else {**prints, "public": public.fingerprint()}

    def kept_in(self, folder: RunFolder) -> Run:
        """Return the run with a folder, and with the identity the folder names."""
        options = replace(self.options, run_id=folder.identity)
        if self.privacy.secure_sum:
            from cotempo.privacy.secure_sum.reducer import SecureSum

            options = replace(options, reducer=SecureSum(scales=folder.path / "scales.jsonl"))
        return replace(self, folder=folder, options=options)

    def guarded(self, privacy: Privacy | None) -> Run:
        """Return the run with the reducer and the shields that its privacy asks for, its defaults decided."""
        wanted, options = privacy.secure_sum if privacy else None, self.options
        is_plain = isinstance(options.reducer, PlainReducer)
        if wanted is False or (wanted is None and not (self.engine.is_remote and is_plain)):
            return self
        if not is_plain:
            raise ParameterError("reducer must be left out with secure_sum, which is one itself")
        names = self.engine.client_names(self.tables)
        if wanted is None and len(names) < 3:
            return self
        from cotempo.privacy.secure_sum.reducer import SecureSum, require_enough
        from cotempo.privacy.secure_sum.shield import SecureSumShield

        if names:  # else the engine says what is wrong with its server's folder
            require_enough(len(names))
        shield = SecureSumShield.elsewhere() if self.engine.is_remote else SecureSumShield.local(names)
        options = replace(options, reducer=SecureSum(), shields=(*options.shields, shield))
        return replace(self, options=options, privacy=Privacy(secure_sum=True))

    def start(
        self, path: str | Path | None = None, experiment: Experiment | None = None, progress: bool | None = None
    ) -> Any:
        """Run from the start; with `path`, keep the run in a new folder, which says what is run."""
        if path is None:
            return self.run_from(None, progress)
        kept = (experiment or _experiment(path, self)).model_copy(update={"privacy": self.privacy})
        with closing(RunFolder.create(path, kept.to_dict(), self.fingerprints)) as folder:
            try:
                return self.kept_in(folder).run_from(None, progress)
            except Exception:
                if not folder.checkpoints:
                    folder.discard()  # so that the same command works once its mistake is fixed
                raise

    def run_from(self, start: Checkpoint | None, progress: bool | None) -> Any:
        """Run from a checkpoint, or from the start if there is none, to the end, and store what was learned."""
        method, options, folder = self.method, self.options, self.folder
        device: Device = getattr(method, "device", "cpu")
        if device != "cpu" and not self.engine.is_remote:
            find_device(device)  # refused here, not by every client in turn
        with (
            limit_threads(self.engine.threads),
            closing(
                self.engine.open(
                    method,
                    self.tables,
                    seed=options.seed,
                    run=options.run_id,
                    shields=options.shields,
                    privacy=self.privacy,
                )
            ) as engine,
        ):
            if start:
                engine.restore(start.memories, start.ledger)
            else:
                start = initial_checkpoint(method, engine, options)
                if folder:
                    folder.checkpoint(start)
            history: list[dict[str, Any]] = []
            state, ledger = start.state, dict(start.ledger)
            steps = rounds(method, engine, options, start=start, recorder=folder or NO_RECORDER)
            if sys.stderr.isatty() if progress is None else progress:
                steps = show(steps, method)
            for step in steps:
                state = step.state
                ledger |= step.answers.versions
                history.append(describe_step(step))
            if folder:
                history = read_lines(folder.path / "log.jsonl")  # with the steps before a resume
            engine.finish(state, ledger)
            schemas, memories = engine.schemas(engine.names()), engine.memories(ledger)
            outcome = Outcome(method, state, schemas, memories, tuple(history), self.privacy.model_dump(mode="json"))
            fitted = method.result(outcome)
            if folder:
                fitted.save(folder.path / "result")
                fitted.report(folder.path / "report.html", truth=self.truth)
            return fitted


def dry_run(
    method: Method, clients: Mapping[str, Any], *, public: Any = None, seed: int = 0
) -> dict[str, tuple[Message, Expect]]:
    """Return every client's first message and what it is expected to be; nothing is absorbed or stored."""
    setup = Run.of(method, clients, InProcessSettings(), LoopOptions(seed=seed), public=public)
    engine = InProcess(method, setup.tables, seed=seed)
    first = initial_checkpoint(method, engine, setup.options)
    ask = method.ask(first.state, first.cohort, Rng(seed, "server", 1, "ask"))
    if ask is None or not ask.to:
        return {}
    expect = method.expects(first.state, ask.phase)
    messages = {}
    for reply in engine.exchange(make_questions(ask, "dry-run", 1, 1, [{}])):
        if reply.message is None:
            raise CotempoError(f"a client could not answer: {reply.failure}") from reply.cause
        messages[reply.client] = (reply.message, expect)
    return messages


def simulate_delays(
    method: Method,
    clients: Mapping[str, Any],
    *,
    delays: Delays,
    buffer: int | Literal["auto"] | None = None,
    concurrency: int | None = None,
    public: Any = None,
    privacy: Privacy | None = None,
    seed: int = 0,
) -> list[Timed]:
    """Learn from slow clients in simulated time, and return every step with the second it ended.

    Parameters
    ----------
    delays
        How long clients take.
    buffer
        Continue as soon as this many answers are there, for methods that allow it; with ``"auto"``, as many as
        come from clients whose last answer took at most twice the median. `None` waits for everyone asked.
    concurrency
        How many clients work at a time; everyone by default.
    privacy
        As of `fit`; a secure sum needs everyone asked in the same step, so that `buffer` must be `None`.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_events(clients=5, sequences=4)
    >>> method = ct.FedPP(preset="paper", rounds=3, inducing=6, cells=20, window=(0.0, 10.0))
    >>> slow = ct.Delays(stragglers=0.2)
    >>> [step.seconds for step in ct.simulate_delays(method, clients, delays=slow)]
    [10.0, 20.0, 30.0]
    >>> [step.seconds for step in ct.simulate_delays(method, clients, delays=slow, buffer=4)]
    [1.0, 2.0, 3.0]
    """
    options = LoopOptions(seed=seed, participation=Participation(concurrency))
    setup = Run.of(method, clients, InProcessSettings(), options, public=public).guarded(privacy)
    if setup.privacy.secure_sum and buffer is not None:
        raise ParameterError(
            "buffer must be None with secure_sum: masks cancel only in a sum of answers to the same question, got "
            f"{buffer!r}"
        )
    options, seconds = setup.options, delays.among(setup.tables, seed)
    with limit_threads(1):
        engine = InProcess(method, setup.tables, seed=seed, shields=options.shields)
        if buffer is None:
            return list(timed_rounds(method, engine, seconds, options))
        return list(asynchronous_rounds(method, engine, seconds, options, buffer=buffer, concurrency=concurrency))


def _experiment(folder: str | Path, run: Run) -> Experiment:
    """Return the content of the experiment file of a run that was not started from one."""
    return Experiment(
        name=re.sub(r"[^\w .-]", "-", Path(folder).name).strip(" .-") or "run",
        seed=run.options.seed,
        method=type(run.method).__name__,
        parameters={name: value for name, value in run.method.model_dump(mode="json").items() if value is not None},
        cohort=run.options.participation,
        quorum=run.options.quorum,
        engine=run.engine,
    )


def _options(experiment: Experiment) -> LoopOptions:
    return LoopOptions(seed=experiment.seed, participation=experiment.cohort, quorum=experiment.quorum)


def _table(name: str, value: Any, kind: str) -> Table:
    """Return a table as it is; any other dataframe is read, and its errors name the client."""
    if isinstance(value, Table):
        return value
    try:
        table: Table
        (table,) = READERS[kind](value).values()
    except DataError as error:
        raise DataError([Problem(p.must, name, p.column, p.row) for p in error.problems]) from error
    except ValueError:
        raise DataError([Problem("a client's dataframe must hold one client only", client=name)]) from None
    return table


def _require_same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `DataError` on other tables, from which a mixture of two runs would come."""
    first, second = before.get("clients", {}), now["clients"]
    problems = [
        Problem("the table must be the one the run was started on, it has changed, is new or is missing", client=name)
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]
    if before.get("public") != now.get("public"):
        problems.append(Problem("the public table must be the one the run was started on, or none if it had none"))
    if problems:
        raise DataError(problems)
