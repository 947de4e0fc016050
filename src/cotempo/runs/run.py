"""`fit`, `run`, `resume` and `dry_run`, which people call; `Run` connects method, engine and folder to the loop."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cotempo.data import READERS, Table
from cotempo.devices import Device, need_device
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import EngineSettings, engine_settings
from cotempo.errors import CotempoError, DataError, ParameterError, Problem, RunError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.participation import EVERYONE, Participation
from cotempo.federation.reducers import PlainReducer, Reducer
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import Checkpoint, LoopOptions, initial_checkpoint, make_questions, rounds
from cotempo.federation.shields import Shield
from cotempo.federation.simulated_time import Delays, Timed, asynchronous_rounds, timed_rounds
from cotempo.privacy.settings import Privacy
from cotempo.runs.experiment import Experiment, load_clients, load_truth
from cotempo.runs.folder import RunFolder
from cotempo.runs.progress import show
from cotempo.runs.records import describe_step, read_lines
from cotempo.threads import limit_threads

OFF = Privacy(secure_sum=False)


def fit(
    method: Method,
    clients: Mapping[str, Any] | None = None,
    *,
    public: Any = None,
    engine: str | EngineSettings = "inprocess",
    seed: int = 0,
    run: str | Path | None = None,
    cohort: int | Participation | None = None,
    quorum: float = 0.5,
    progress: bool | None = None,
    privacy: Privacy | None = None,
    shields: Sequence[Shield] = (),
    reducer: Reducer | None = None,
    workers: int | None = None,
    batched: bool | None = None,
    deadline: float | None = None,
    threads: int | None = None,
    server: str | Path | None = None,
    participants: Sequence[str] | None = None,
    share_result: bool | None = None,
) -> Any:
    """Learn from the clients and return a new fitted object; the method stays as it is.

    Parameters
    ----------
    clients
        A table, or any dataframe, per client name; none on the engine `flower`, where sites hold theirs.
    public
        A table the server may see, for methods that use one.
    engine
        Where clients run: `inprocess`, `flower-simulation`, `flower`, or an engine's settings.
    seed
        Decides every random number: the same seed gives the same bits.
    run
        A new folder to keep the run in, so that it can be inspected and resumed; without it nothing is written.
    cohort
        How many clients take part in a round, or a `Participation`; everyone by default.
    quorum
        The share of the asked clients whose answers must count; below it the run pauses with `QuorumError`.
    progress
        Show a progress bar; by default when standard error is a terminal.
    privacy
        What is done so that messages tell less about single clients; see `Privacy` for the defaults.
    shields
        Applied to every message between client and server, in this order; the validator always is.
    reducer
        How replies become answers; by default a list or a weighted sum, as the method expects.
    workers, batched, deadline, threads
        Options of the engines on this machine; see `InProcessSettings` and `SimulationSettings`.
    server, participants, share_result
        Options of the engine `flower`; see `FlowerSettings`.
    """
    settings = engine_settings(
        engine, workers=workers, batched=batched, deadline=deadline, threads=threads,
        server=None if server is None else str(server), participants=participants, share_result=share_result,
    )  # fmt: skip
    options = LoopOptions(
        public=_public(public, method),
        seed=seed,
        participation=Participation(cohort) if isinstance(cohort, int) else cohort or EVERYONE,
        quorum=quorum,
        run_id=uuid.uuid4().hex,
        shields=tuple(shields),
        reducer=reducer or PlainReducer(),
    )
    tables = _tables(settings, method, clients or {})
    started = Run(method, tables, settings, options).guarded(privacy)
    if run is not None:
        started = started.kept_in(run, _experiment(run, started))
    return started.start(progress)


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
    method = experiment.make_method()
    if clients is None:
        clients, truth = load_clients(experiment)
    tables = _tables(experiment.engine, method, clients)
    options = _options(experiment, _public(public, method), uuid.uuid4().hex)
    started = Run(method, tables, experiment.engine, options, truth).guarded(experiment.privacy)
    return (started if run is None else started.kept_in(run, experiment)).start(progress)


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
    folder = RunFolder.reopen(run)
    with closing(folder):
        before = Experiment.from_dict(folder.experiment)
        experiment = before.on(engine=engine, server=server)
        if before.is_remote != experiment.is_remote:
            raise RunError(f"{run} must continue where its clients' memories are, on the engine {before.engine.name}")
        method = experiment.make_method()
        clients, truth = load_clients(experiment) if clients is None else (clients, load_truth(experiment))
        tables = _tables(experiment.engine, method, clients)
        options = _options(experiment, _public(public, method), folder.identity)
        options = replace(options, shields=tuple(shields), reducer=reducer or PlainReducer())
        stopped = Run(method, tables, experiment.engine, options, truth, folder).guarded(experiment.privacy)
        _require_same_data(folder.fingerprints, stopped.fingerprints)
        return stopped.resume(progress)


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

    @property
    def fingerprints(self) -> dict[str, Any]:
        """Hashes of the tables, by which a resume on other data is refused."""
        prints = {"clients": {name: table.fingerprint() for name, table in self.tables.items()}}
        public = self.options.public
        return prints if public is None else {**prints, "public": public.fingerprint()}

    def kept_in(self, path: str | Path, experiment: Experiment) -> Run:
        """Return the run with a new folder, which says what is run."""
        experiment = experiment.model_copy(update={"privacy": self.privacy})
        folder = RunFolder.create(path, experiment.to_dict(), self.fingerprints)
        options = replace(self.options, run_id=folder.identity)
        return replace(self, folder=folder, options=options)._with_scales()

    def guarded(self, privacy: Privacy | None) -> Run:
        """Return the run with the reducer and the shields that its privacy asks for, its defaults decided."""
        if privacy is not None:
            self = replace(self, privacy=privacy.model_copy(update={"secure_sum": bool(privacy.secure_sum)}))
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
        privacy = self.privacy.model_copy(update={"secure_sum": True})
        return replace(self, options=options, privacy=privacy)._with_scales()

    def _with_scales(self) -> Run:
        """Return the run with a secure sum that keeps its scales in the run's folder, if it has both."""
        if not self.folder or not self.privacy.secure_sum:
            return self
        from cotempo.privacy.secure_sum.reducer import SecureSum

        reducer = SecureSum(scales=self.folder.path / "scales.jsonl")
        return replace(self, options=replace(self.options, reducer=reducer))

    def start(self, progress: bool | None = None) -> Any:
        """Run from the start; a folder in which nothing was stored before an error is removed again."""
        try:
            return self._run(None, progress)
        except Exception:
            if self.folder and not self.folder.has_started:
                self.folder.discard()  # so that the same command works once its mistake is fixed
            raise

    def resume(self, progress: bool | None = None) -> Any:
        """Continue from the folder's newest intact checkpoint, or start if it has none."""
        assert self.folder is not None  # the function `resume` opened it
        start = self.folder.latest(self.method)
        self.folder.rewind(start.step if start else 0)
        return self._run(start, progress)

    def _run(self, start: Checkpoint | None, progress: bool | None) -> Any:
        with self._open_engine() as engine:
            if start is None:
                start = initial_checkpoint(self.method, engine, self.options)
                if self.folder:
                    self.folder.checkpoint(start)
            else:
                engine.restore(start.memories, start.ledger)
            return self._run_loop(engine, start, progress)

    @contextmanager
    def _open_engine(self) -> Iterator[Engine]:
        device: Device = getattr(self.method, "device", "cpu")
        if device != "cpu" and not self.engine.is_remote:
            need_device(device)  # refused here, not by every client in turn
        try:
            with limit_threads(self.engine.threads):
                options = self.options
                engine = self.engine.open(
                    self.method, self.tables, seed=options.seed, run=options.run_id, shields=options.shields
                )
                with closing(engine):
                    yield engine
        finally:
            if self.folder:
                self.folder.close()

    def _run_loop(self, engine: Engine, start: Checkpoint, progress: bool | None) -> Any:
        """Run the loop to its end, and store what was learned."""
        history: list[dict[str, Any]] = []
        state, ledger = start.state, dict(start.ledger)
        steps = rounds(self.method, engine, self.options, start=start, recorder=self.folder)
        if sys.stderr.isatty() if progress is None else progress:
            steps = show(steps, self.method)
        for step in steps:
            if not self.folder:
                history.append(describe_step(step))
            state = step.state
            ledger |= step.answers.versions
        if self.folder:
            history = read_lines(self.folder.path / "log.jsonl")
        engine.finish(state, ledger)
        schemas = engine.schemas(engine.names())
        memories, privacy = engine.memories(ledger), self.privacy.model_dump(mode="json")
        fitted = self.method.result(Outcome(self.method, state, schemas, memories, tuple(history), privacy))
        if self.folder:
            fitted.save(self.folder.path / "result")
            fitted.report(self.folder.path / "report.html", truth=self.truth)
        return fitted


def dry_run(
    method: Method, clients: Mapping[str, Any], *, public: Any = None, seed: int = 0
) -> dict[str, tuple[Message, Expect]]:
    """Return every client's first message and what it is expected to be; nothing is absorbed or stored."""
    engine = InProcess(method, _local_tables(method, clients), seed=seed)
    first = initial_checkpoint(method, engine, LoopOptions(public=_public(public, method), seed=seed))
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
    tables = _local_tables(method, clients)
    seconds = delays.among(tables, seed)
    options = LoopOptions(public=_public(public, method), seed=seed, participation=Participation(concurrency))
    guarded = Run(method, tables, engine_settings(), options).guarded(privacy)
    if guarded.privacy.secure_sum and buffer is not None:
        raise ParameterError(
            "buffer must be None with secure_sum: masks cancel only in a sum of answers to the same question, got "
            f"{buffer!r}"
        )
    options = guarded.options
    with limit_threads(1):
        engine = InProcess(method, tables, seed=seed, shields=options.shields)
        if buffer is None:
            return list(timed_rounds(method, engine, seconds, options))
        return list(asynchronous_rounds(method, engine, seconds, options, buffer=buffer, concurrency=concurrency))


def parameters_of(method: Method) -> dict[str, Any]:
    """Return a method's hyperparameters as plain values."""
    return {name: value for name, value in method.model_dump(mode="json").items() if value is not None}


def _experiment(folder: str | Path, run: Run) -> Experiment:
    """Return the content of the experiment file of a run that was not started from one."""
    return Experiment(
        name=re.sub(r"[^\w .-]", "-", Path(folder).name).strip(" .-") or "run",
        seed=run.options.seed,
        method=type(run.method).__name__,
        parameters=parameters_of(run.method),
        cohort=run.options.participation,
        quorum=run.options.quorum,
        engine=run.engine,
    )


def _options(experiment: Experiment, public: Table | None, identity: str) -> LoopOptions:
    return LoopOptions(public, experiment.seed, experiment.cohort, experiment.quorum, identity)


def _tables(engine: EngineSettings, method: Method, clients: Mapping[str, Any]) -> dict[str, Table]:
    """Return the clients' tables; none if sites hold them."""
    if not engine.is_remote:
        return _local_tables(method, clients)
    if clients:
        raise ParameterError(f"clients must not be given on the engine {engine.name}: sites hold their own tables")
    return {}


def _local_tables(method: Method, clients: Mapping[str, Any]) -> dict[str, Table]:
    if not isinstance(clients, Mapping) or not clients:
        raise DataError("clients must be a mapping from client name to table with at least one client")
    return {str(name): _table(str(name), clients[name], method.kind) for name in sorted(clients)}


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


def _public(value: Any, method: Method) -> Table | None:
    return None if value is None else _table("public", value, method.kind)


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
