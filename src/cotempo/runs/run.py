"""`fit`, `resume` and `dry_run`: what people call. They wire a method, an engine and a run folder to the one loop."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from cotempo.data import READERS, Table
from cotempo.devices import need_device
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import engine_settings
from cotempo.errors import CotempoError, DataError, ParameterError, Problem, RunError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Fitted, Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.participation import Participation
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import Checkpoint, opening, pose, rounds
from cotempo.federation.simulated_time import Delays, Timed, asynchronous_rounds, timed_rounds
from cotempo.runs.experiment import Experiment, load_clients, load_truth
from cotempo.runs.folder import RunFolder, describe_step, read_lines
from cotempo.runs.progress import show
from cotempo.threads import limit_threads


def fit(
    method: Method,
    clients: Mapping[str, Any] | None = None,
    *,
    public: Any = None,
    engine: str = "inprocess",
    server: str | Path | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    participants: Sequence[str] = (),
    share_result: bool = False,
    workers: int = 0,
    batched: bool | None = None,
    deadline: float | None = None,
    threads: int = 1,
    cohort: int | Participation | None = None,
    quorum: float = 0.5,
    progress: bool | None = None,
) -> Any:
    """Learn from the clients and return a new fitted object; the method stays as it is.

    Parameters
    ----------
    clients
        A table, or any dataframe, per client name; none on the engine `flower`, where sites hold theirs.
    public
        A table the server may see, for methods that use one.
    engine
        Where clients run: `inprocess`, `flower-simulation` or `flower`.
    server
        On the engine `flower`, the server's folder as `cotempo provision` made it.
    participants
        On the engine `flower`, the sites that take part; all that were provisioned by default.
    share_result
        On the engine `flower`, send the final state to the sites, so that each can use its own model there.
    seed
        Decides every random number: the same seed gives the same bits.
    run
        A new folder to keep the run in, so that it can be looked at and resumed; without it nothing is written.
    workers
        Processes to spread the clients over; with 0, `inprocess` calls them directly in this process, and
        `flower-simulation` takes as many as there are cores.
    batched
        Whether methods that can answer for the whole cohort at once do so: by default with direct calls, the only ones
        where they can. Batched and looped runs agree within rounding, not in bits.
    deadline
        Seconds a client may take for an answer; not for direct calls, which cannot be cut short.
    threads
        Threads each process may use, at most as many as there are cores; sites across organisations use one.
    cohort
        How many clients take part in a round, or a `Participation`; everyone by default.
    quorum
        The share of the asked clients whose answers must count; below it the run pauses with `QuorumError`.
    progress
        Show a progress bar; by default when standard error is a terminal.
    """
    experiment = Experiment(
        name=re.sub(r"[^\w .-]", "-", Path(run).name).strip(" .-") or "run" if run else type(method).__name__,
        seed=seed,
        method=type(method).__name__,
        parameters=parameters_of(method),
        cohort=_cohort(cohort),
        quorum=quorum,
        engine=engine_settings(
            engine, workers=workers, batched=batched, deadline=deadline, threads=threads,
            server=None if server is None else str(server), participants=tuple(participants),
            share_result=share_result,
        ),
    )  # fmt: skip
    return run_experiment(experiment, clients or {}, method=method, public=public, run=run, progress=progress)


def run_experiment(
    experiment: Experiment,
    clients: Mapping[str, Any] | None = None,
    *,
    truth: Any = None,
    method: Method | None = None,
    public: Any = None,
    run: str | Path | None = None,
    progress: bool | None = None,
) -> Any:
    """Run an experiment from its start; clients, and the truth behind them, come from its `[data]` unless given."""
    method = method or experiment.make_method()
    tables, truth = _tables(experiment, method, clients, truth)
    public = None if public is None else _table("public", public, method.kind)
    folder = None
    if run is not None:
        folder = RunFolder.create(run, experiment.to_dict(), _fingerprints(tables, public))
    try:
        identity = folder.identity if folder else uuid.uuid4().hex
        with _at_work(experiment, method, tables, folder, identity) as engine:
            return _drive(experiment, method, engine, folder, None, public, progress, identity, truth)
    except Exception:
        if folder and not folder.has_begun:
            folder.discard()  # so that the same command works once its mistake is mended
        raise


def resume(
    run: str | Path,
    clients: Mapping[str, Any] | None = None,
    *,
    public: Any = None,
    engine: str | None = None,
    server: str | Path | None = None,
    progress: bool | None = None,
) -> Any:
    """Go on with a run from its newest whole checkpoint, to the same bits as if it had never stopped.

    Clients are read again from where the experiment says they are, unless they are given; tables that differ from
    those the run was begun on are refused. `server` says where the server's folder is now, if it was moved.
    """
    folder = RunFolder.reopen(run)
    with closing(folder):
        begun = Experiment.from_dict(folder.experiment)
        experiment = begun.on(engine=engine, server=server)
        if begun.is_remote != experiment.is_remote:
            raise RunError(f"{run} must go on where its clients' memories are, on the engine {begun.engine.name}")
        method = experiment.make_method()
        tables, truth = _tables(experiment, method, clients, None if clients is None else load_truth(experiment))
        public = None if public is None else _table("public", public, method.kind)
        _same_data(folder.fingerprints, _fingerprints(tables, public))
        start = folder.latest(method)
        folder.rewind(start.step if start else 0)
        with _at_work(experiment, method, tables, folder, folder.identity) as place:
            if start:
                place.restore(start.memories, start.ledger)
            return _drive(experiment, method, place, folder, start, public, progress, folder.identity, truth)


def dry_run(
    method: Method, clients: Mapping[str, Any], *, public: Any = None, seed: int = 0
) -> dict[str, tuple[Message, Expect]]:
    """Make every client's first message and return it, with what it is said to be; nothing is absorbed or kept."""
    tables = _here(method, clients)
    public = None if public is None else _table("public", public, method.kind)
    engine = InProcess(method, tables, seed=seed)
    first = opening(method, engine, public=public, seed=seed, participation=Participation())
    ask = method.ask(first.state, first.cohort, Rng(seed, "server", 1, "ask"))
    if ask is None or not ask.to:
        return {}
    expect = method.expects(first.state, ask.phase)
    messages = {}
    for reply in engine.exchange(pose(ask, "dry-run", 1, 1, [{}])):
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
    seed: int = 0,
) -> list[Timed]:
    """Learn with clients that take their time, in simulated seconds, and return every step with when it ended.

    Parameters
    ----------
    delays
        How long clients take.
    buffer
        Go on as soon as this many answers are there, for methods that allow it; with ``"auto"``, as many as come from
        clients whose last answer took at most twice the median. `None` waits for everyone asked.
    concurrency
        How many clients are at work at a time; everyone by default.

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
    tables = _here(method, clients)
    public = None if public is None else _table("public", public, method.kind)
    seconds = delays.among(tables, seed)
    with limit_threads(1):
        engine = InProcess(method, tables, seed=seed)
        if buffer is None:
            who = Participation(concurrency)
            return list(timed_rounds(method, engine, seconds, public=public, seed=seed, participation=who))
        return list(
            asynchronous_rounds(
                method, engine, seconds, buffer=buffer, concurrency=concurrency, public=public, seed=seed
            )
        )


@contextmanager
def _at_work(
    experiment: Experiment, method: Method, tables: Mapping[str, Table], folder: RunFolder | None, run: str
) -> Iterator[Engine]:
    settings = experiment.engine
    if not experiment.is_remote:
        need_device(getattr(method, "device", "cpu"))  # refused here, not by every client in turn
    with limit_threads(settings.threads):
        engine = settings.open(method, tables, seed=experiment.seed, run=run)
        try:
            yield engine
        finally:
            engine.close()
            if folder:
                folder.close()


def _drive(
    experiment: Experiment,
    method: Method,
    engine: Engine,
    folder: RunFolder | None,
    start: Checkpoint | None,
    public: Table | None,
    progress: bool | None,
    run: str,
    truth: Any,
) -> Fitted:
    """Run the loop to its end, and keep what came of it."""
    history: list[dict[str, Any]] = []
    who = experiment.participation
    if start is None:
        start = opening(method, engine, public=public, seed=experiment.seed, participation=who)
        if folder:
            folder.checkpoint(start)
    state, ledger = start.state, dict(start.ledger)
    steps = rounds(
        method, engine, public=public, seed=experiment.seed, participation=who, quorum=experiment.quorum,
        run=run, keeper=folder, start=start,
    )  # fmt: skip
    for step in show(steps, method, progress):
        if not folder:
            history.append(describe_step(step))
        state = step.state
        ledger |= step.answers.versions
    if folder:
        history = read_lines(folder.path / "log.jsonl")
    engine.finish(state, ledger)
    schemas = engine.schemas(engine.names())
    fitted = method.result(Outcome(method, state, schemas, engine.memories(ledger), tuple(history)))
    if folder:
        fitted.save(folder.path / "result")
        fitted.report(folder.path / "report.html", truth=truth)
    return fitted


def parameters_of(method: Method) -> dict[str, Any]:
    """A method's hyperparameters as plain values."""
    return {name: value for name, value in method.model_dump(mode="json").items() if value is not None}


def _tables(
    experiment: Experiment, method: Method, clients: Mapping[str, Any] | None, truth: Any
) -> tuple[dict[str, Table], Any]:
    """Return the clients' tables, none where they are at their own places, and the truth behind them if it is known."""
    if experiment.is_remote:
        if clients:
            raise ParameterError("clients must not be given on the engine flower: sites hold their own tables")
        return {}, None
    if clients is None:
        clients, truth = load_clients(experiment)
    return _here(method, clients), truth


def _here(method: Method, clients: Mapping[str, Any]) -> dict[str, Table]:
    if not isinstance(clients, Mapping) or not clients:
        raise DataError("clients must be a mapping from client name to table with at least one client")
    return {str(name): _table(str(name), clients[name], method.kind) for name in sorted(clients)}


def _table(name: str, value: Any, kind: str) -> Table:
    """A table as it is; any dataframe is read, its errors named by client."""
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


def _cohort(cohort: int | Participation | None) -> dict[str, int] | None:
    if cohort is None:
        return None
    if isinstance(cohort, int):
        cohort = Participation(size=cohort)
    return {"size": cohort.size, "period": cohort.period} if cohort.size else None


def _fingerprints(tables: Mapping[str, Table], public: Table | None) -> dict[str, Any]:
    prints = {"clients": {name: table.fingerprint() for name, table in tables.items()}}
    return prints if public is None else {**prints, "public": public.fingerprint()}


def _same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """The same tables give the same bits; others would give something that is neither run."""
    first, second = before.get("clients", {}), now["clients"]
    problems = [
        Problem("the table must be the one the run was begun on, it has changed, is new or is missing", client=name)
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]
    if before.get("public") != now.get("public"):
        problems.append(Problem("the public table must be the one the run was begun on, or none if it had none"))
    if problems:
        raise DataError(problems)
