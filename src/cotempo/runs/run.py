"""`Run`, which connects method, engine and folder to the loop; `run`, `resume` and `simulate_delays`."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotempo.attacks.attack import Attack, Lying
from cotempo.data import READERS, Series, Table
from cotempo.data.description import unequal_steps
from cotempo.devices import Device, find_device
from cotempo.engines.delayed import Delays, Timed, asynchronous_rounds, timed_rounds
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import OFF, EngineSettings, InProcessSettings
from cotempo.errors import AdviceWarning, AwaitingApproval, DataError, ParameterError, Problem, RunError, warn
from cotempo.federation.exchange import Answers
from cotempo.federation.fitted import Outcome, load
from cotempo.federation.late import LateReducer
from cotempo.federation.method import Method
from cotempo.federation.reducers import DEFAULT_REDUCER, PlainReducer, Reducer
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import (
    NO_RECORDER,
    Buffer,
    Checkpoint,
    LoopOptions,
    Participation,
    Step,
    initial_checkpoint,
    rounds,
)
from cotempo.federation.shields import Shield
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.settings import Privacy
from cotempo.progress import Progress
from cotempo.robust.groups import GroupedSum
from cotempo.robust.reducer import Robust
from cotempo.runs.alarms import watched
from cotempo.runs.experiment import Experiment, load_clients, load_public, load_truth
from cotempo.runs.folder import RunFolder, describe_step, read_experiment, read_lines
from cotempo.storage.tree import freeze
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
    public
        A table the server may see; by default from the experiment's ``[data]``.
    run, progress
        As of `fit`.
    """
    experiment = experiment if isinstance(experiment, Experiment) else Experiment.from_file(experiment)
    if clients is None:
        clients, truth = load_clients(experiment)
    public = load_public(experiment) if public is None else public
    started = Run.of(
        experiment.make_method(), clients, experiment.engine, loop_options(experiment), public=public, truth=truth,
        attack=experiment.attack,
    )  # fmt: skip
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
    public
        A table the server may see; by default from the experiment's ``[data]``.
    progress, shields, reducer
        As of `fit`; give those the run was started with.
    """
    with closing(RunFolder.reopen(run)) as folder:
        before = Experiment.from_dict(read_experiment(folder.path))
        experiment = before.on(engine=engine, server=server)
        if before.engine.is_remote != experiment.engine.is_remote:
            raise RunError(f"{run} must continue where its clients' memories are, on the engine {before.engine.name}")
        clients, truth = load_clients(experiment) if clients is None else (clients, load_truth(experiment))
        public = load_public(experiment) if public is None else public
        options = replace(loop_options(experiment), shields=tuple(shields))
        options = replace(options, reducer=reducer or options.reducer)
        stopped = Run.of(
            experiment.make_method(), clients, experiment.engine, options, public=public, truth=truth,
            attack=experiment.attack,
        )  # fmt: skip
        stopped = stopped.guarded(experiment.privacy).kept_in(folder)
        _require_same_data(folder.fingerprints, stopped.fingerprints)
        start = folder.latest(stopped.method)
        folder.rewind(start.step if start else 0)
        return stopped.run_from(start, progress)


@dataclass(frozen=True)
class Run:
    """One run: a method on its tables, the engine and options it runs with, and the folder it is kept in, if any.

    `truth` is what generated data were made from, for the report; `privacy` is decided by `guarded`; `warned` is
    what was odd about the tables.
    """

    method: Method
    tables: Mapping[str, Table]
    engine: EngineSettings
    options: LoopOptions
    truth: Any = None
    folder: RunFolder | None = None
    privacy: Privacy = OFF
    attack: Attack | None = None
    warned: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        method: Method,
        clients: Any,
        engine: EngineSettings,
        options: LoopOptions,
        *,
        public: Any = None,
        truth: Any = None,
        attack: Attack | None = None,
    ) -> Run:
        """Return a run on clients' tables or dataframes; if sites hold them, none may be given."""
        if engine.is_remote and clients is not None and len(clients):
            raise ParameterError(f"clients must not be given on the engine {engine.name}: sites hold their own tables")
        tables = {} if engine.is_remote else _tables(clients, method.kind)
        warned = []
        dated = {name: table for name, table in tables.items() if isinstance(table, Series) and table.unit}
        if dated and method.equal_steps and (apart := unequal_steps({name: t.step for name, t in dated.items()})):
            if method.equal_steps == "required":
                raise DataError(apart)
            warned.append(f"{apart}; what is learned together mixes them")
            warn(warned[-1])
        options = replace(options, run_id=uuid.uuid4().hex)
        if attack is not None:
            if engine.is_remote:
                raise ParameterError(f"attack must be left out on engine {engine.name}: a site lies by itself or not")
            lying = attack.shield(tables, options.seed)
            options = replace(options, shields=(*options.shields, lying))
        if public is not None:
            if not method.uses_public:
                raise ParameterError(f"public must be left out: {type(method).__name__} uses no public table")
            options = replace(options, public=_tables({"public": public}, method.kind)["public"])
        return cls(method, tables, engine, options, truth, attack=attack, warned=tuple(warned))

    @property
    def fingerprints(self) -> dict[str, Any]:
        """Hashes of the tables, by which a resume on other data is refused."""
        prints = {"clients": {name: table.fingerprint() for name, table in self.tables.items()}}
        public = self.options.public
        return prints if public is None else {**prints, "public": public.fingerprint()}

    def kept_in(self, folder: RunFolder) -> Run:
        """Return the run with a folder, and with the identity the folder names."""
        options = replace(self.options, run_id=folder.identity)
        if isinstance(options.reducer, GroupedSum):
            options = replace(options, reducer=GroupedSum(options.reducer.robust, folder.path))
        elif self.privacy.secure_sum:
            from cotempo.privacy.secure_sum.reducer import SecureSum

            remote = self.engine.is_remote
            options = replace(options, reducer=SecureSum(scales=folder.path / "scales.jsonl", announces=remote))
        return replace(self, folder=folder, options=options)

    def guarded(self, privacy: Privacy | None) -> Run:
        """Return the run with the method, the reducer and the shields that its privacy asks for, defaults decided."""
        masked = self._masked(privacy)
        if self.options.buffer is not None:
            self._require_buffer(masked.privacy if privacy is None or privacy.epsilon is None else privacy)
        if privacy is None or privacy.epsilon is None:
            if masked.options.reducer is not DEFAULT_REDUCER or self.options.buffer is not None:
                return masked
            return replace(masked, options=replace(masked.options, reducer=self.method.reducer))
        if self.options.participation.size is not None:
            raise ParameterError("cohort must be left out with epsilon: the noise is sized for sums over all clients")
        from cotempo.privacy.noise import Noise

        decided = privacy.model_copy(update={"secure_sum": masked.privacy.secure_sum})
        method = self.method.private(decided)
        # First of the shields, so that all that comes after it is post-processing.
        shields = (Noise.among(method, masked.options.shields), *masked.options.shields)
        return replace(masked, method=method, options=replace(masked.options, shields=shields), privacy=decided)

    def _require_buffer(self, privacy: Privacy) -> None:
        """Raise `ParameterError` where answers to different questions cannot be gathered."""
        refuse_late(privacy, self.options.buffer)
        if not self.engine.is_remote:
            raise ParameterError(
                f"buffer must be left out on the engine {self.engine.name}, whose clients take turns: it is for sites "
                "on flower; what it would save: cotempo.simulate_delays"
            )
        if self.options.reducer is not DEFAULT_REDUCER:
            raise ParameterError("buffer must be left out with a reducer or [robust]: late answers are plain sums")

    def _masked(self, privacy: Privacy | None) -> Run:
        """Return the run with the secure sum, if it is asked for or the default."""
        wanted, options = privacy.secure_sum if privacy else None, self.options
        robust = options.reducer if isinstance(options.reducer, Robust) else None
        # A tree of sums is asked for by name, and is not masked.
        is_plain = robust is not None or type(options.reducer) is PlainReducer
        if wanted is False or (wanted is None and not (self.engine.is_remote and is_plain)):
            return self
        if not is_plain:
            raise ParameterError("reducer must be left out with secure_sum, which is one itself, or be Robust")
        names = self.engine.client_names(self.tables)
        if wanted is None and len(names) < 3:
            return self
        from cotempo.privacy.secure_sum.expected import require_enough
        from cotempo.privacy.secure_sum.reducer import SecureSum
        from cotempo.privacy.secure_sum.shield import SecureSumShield

        if names:  # else the engine says what is wrong with its server's folder
            require_enough(len(names))
        shield = SecureSumShield.elsewhere() if self.engine.is_remote else SecureSumShield.local(names)
        reducer: Reducer = GroupedSum(robust) if robust else SecureSum(announces=self.engine.is_remote)
        if isinstance(reducer, GroupedSum) and names:
            reducer.groups(names)  # refused here, not in the first step
        options = replace(options, reducer=reducer, shields=(*options.shields, shield))
        return replace(self, options=options, privacy=Privacy(secure_sum=True))

    def start(
        self, path: str | Path | None = None, experiment: Experiment | None = None, progress: bool | None = None
    ) -> Any:
        """Run from the start; with `path`, keep the run in a new folder, which says what is run."""
        if path is None:
            return self.run_from(None, progress)
        decided = {"privacy": self.privacy, "engine": self.engine.with_participants()}
        kept = (experiment or _experiment(path, self)).model_copy(update=decided)
        with closing(RunFolder.create(path, kept.to_dict(), self.fingerprints)) as folder:
            try:
                return self.kept_in(folder).run_from(None, progress)
            except AwaitingApproval:
                raise  # people approve the run by the identity that the folder keeps
            except Exception:
                if not folder.checkpoints:
                    folder.discard()  # so that the same command works once its mistake is fixed
                raise

    def run_from(self, start: Checkpoint | None, progress: bool | None) -> Any:
        """Run from a checkpoint, or from the start if there is none, to the end, and store what was learned."""
        method, options, folder = self.method, self.options, self.folder
        device: Device = getattr(method, "device", "cpu")
        tables = self.attack.poison(self.tables, options.seed) if self.attack else self.tables
        if device != "cpu" and not self.engine.is_remote:
            find_device(device)  # refused here, not by every client in turn
        with (
            limit_threads(self.engine.threads),
            watched(folder.path, self.engine.alerts()) if folder else nullcontext(),
            folder.pulse.beating(self.engine.client_names(self.tables)) if folder else nullcontext(),
            closing(
                self.engine.open(
                    method,
                    tables,
                    seed=options.seed,
                    run=options.run_id,
                    shields=options.shields,
                    privacy=self.privacy,
                )
            ) as engine,
        ):
            for shield in options.shields:
                engine = shield.among(engine) if isinstance(shield, Lying) else engine
            if start:
                engine.restore(start.memories, start.ledger)
            else:
                start = initial_checkpoint(method, engine, options)
                if folder:
                    folder.write_schemas(engine.schemas(start.known))
                    folder.checkpoint(start)
            if folder and (silence := getattr(engine, "silence", None)):
                folder.pulse.follow(silence)
            history: list[dict[str, Any]] = []  # a folder has it in its log
            state, ledger = start.state, dict(start.ledger)
            if options.buffer is not None:

                def preview(step: int, answers: Answers) -> None:
                    """Keep what the answers that are there tell, before all are."""
                    stream = Rng(options.seed, "server", step, "absorb")
                    moved, _ = method.absorb(state, answers, options.public, stream)
                    if folder:
                        folder.preview(freeze(moved), len(answers.names))

                options = LateReducer(method, options, preview=preview).loop_options
            steps = rounds(method, engine, options, start=start, recorder=folder or NO_RECORDER)
            say = None if progress is False else Progress(type(method).__name__, progress)
            with say or nullcontext():
                try:
                    for step in steps:
                        state = step.state
                        ledger |= step.answers.versions
                        if folder:
                            folder.pulse.work(*work_of(method, step))
                        else:
                            history.append(describe_step(step))
                        if say:
                            tell(say, method, step)
                except KeyboardInterrupt as stop:
                    stop.add_note(self._where_it_stopped(history))
                    raise
            if folder:
                history = read_lines(folder.path / "log.jsonl")  # with the steps before a resume
            engine.finish(state, ledger)
            schemas = engine.schemas(engine.names())
            memories = {name: kept for name, kept in engine.memories(ledger).items() if kept is not None}
            promise = method.promise() if isinstance(method, PrivateForm) else {}
            privacy = {"secure_sum": self.privacy.secure_sum, **promise}
            asked = {
                phase: describe_phase(method, state, phase)
                for phase in dict.fromkeys(record["phase"] for record in history)
            }
            warned, tables = self._warnings(), self.fingerprints["clients"]
            outcome = Outcome(method, state, schemas, memories, tuple(history), privacy, asked, warned, tables)
            if promise:  # both are of rows without noise, and a private result may be given away
                outcome = replace(outcome, warned=(), tables={})
            fitted = method.result(outcome)
            for line in fitted.warnings():
                warn(line, AdviceWarning)
            if folder:
                with suppress(RunError):  # no result yet; what was done since with one, such as events renamed, stays
                    earlier = load(folder.path)
                    fitted.streams = earlier.streams if earlier.digest == fitted.digest else fitted.streams
                fitted.save(folder.path / "result")
                fitted.report(folder.path / "report.html", truth=self.truth, run=folder.path)
            return fitted

    def _warnings(self) -> tuple[str, ...]:
        """Warn of what can hardly be right in the tables; return that and what was warned of before."""
        found = {name: [*table.faults(), *self.method.misled_by(table)] for name, table in self.tables.items()}
        faults = [f"{name}: {words}" for name, own in found.items() for words in own]
        series = {name: table for name, table in self.tables.items() if isinstance(table, Series)}
        if self.method.equal_steps and not any(table.unit for table in series.values()):
            apart = unequal_steps({name: table.usual_step for name, table in series.items()}, dated=False)
            faults += [f"{apart}; what is learned together mixes them"] if apart else []
        for words in faults:
            warn(words)
        return (*faults, *self.warned)

    def _where_it_stopped(self, history: Sequence[Mapping[str, Any]]) -> str:
        """Return how far the run has come and how to go on, for Ctrl-C."""
        records = read_lines(self.folder.path / "log.jsonl") if self.folder else history
        where = "after round {round}, step {step}".format(**records[-1]) if records else "in the first step"
        if not self.folder:
            return f"stopped {where}; nothing was kept; with run=FOLDER a run can be continued"
        path = self.folder.path
        from_file = "data" in read_experiment(path) or self.engine.is_remote
        command = f"cotempo resume {path}" if from_file else f"cotempo.resume({str(path)!r}, clients)"
        return f"stopped {where}; continue with: {command}"


def tell(progress: Progress, method: Method, step: Step) -> None:
    """Show a step: the work done, round, phase and first metrics."""
    numbers = [f"{name} {value:.4g}" for name, value in list(step.metrics.items())[:3]]
    lost = [f"{len(step.answers.failures)} left out"] if step.answers.failures else []
    done, total = work_of(method, step)
    progress(done, total, "  ".join([f"round {step.round}", step.phase, *numbers, *lost]))


def work_of(method: Method, step: Step) -> tuple[float, float | None]:
    """Return how much is done of how much; rounds of nobody knows how many where the method cannot say."""
    return method.work(step.state) or (step.round, None)


def describe_phase(method: Method, state: Any, phase: str) -> dict[str, Any]:
    """Return what clients send in a phase: a description of every field, and whether only the sum is used."""
    expect = method.expects(state, phase)
    return {"summed": expect.sums, "fields": {name: spec.description for name, spec in expect.fields.items()}}


def simulate_delays(
    method: Method,
    clients: Mapping[str, Any],
    *,
    delays: Delays,
    buffer: Buffer | None = None,
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
    method = setup.method
    refuse_late(setup.privacy, buffer)
    options, seconds = setup.options, delays.among(setup.tables, seed)
    with limit_threads(1):
        engine = InProcess(method, setup.tables, seed=seed, shields=options.shields)
        if buffer is None:
            return list(timed_rounds(method, engine, seconds, options))
        return list(asynchronous_rounds(method, engine, seconds, options, buffer=buffer, concurrency=concurrency))


def refuse_late(privacy: Privacy, buffer: Buffer | None) -> None:
    """Raise `ParameterError` for a buffer under a secure sum or noise."""
    if (privacy.secure_sum or privacy.epsilon) and buffer is not None:
        raise ParameterError(
            "buffer must be None with secure_sum or epsilon: masks cancel, and noise is sized, for a sum of answers to "
            f"the same question, got {buffer!r}; wait for everyone, or turn them off ([privacy] secure_sum = false), "
            "which sites must allow"
        )


def _experiment(folder: str | Path, run: Run) -> Experiment:
    """Return the content of the experiment file of a run that was not started from one."""
    method = run.method.inner if isinstance(run.method, PrivateForm) else run.method
    reducer = run.options.reducer.robust if isinstance(run.options.reducer, GroupedSum) else run.options.reducer
    return Experiment(
        name=re.sub(r"[^\w .-]", "-", Path(folder).name).strip(" .-") or "run",
        seed=run.options.seed,
        method=type(method).__name__,
        parameters={name: value for name, value in method.model_dump(mode="json").items() if value is not None},
        cohort=run.options.participation,
        quorum=run.options.quorum,
        buffer=run.options.buffer,
        engine=run.engine,
        attack=run.attack,
        robust=reducer if isinstance(reducer, Robust) else None,
    )


def loop_options(experiment: Experiment) -> LoopOptions:
    """Return what an experiment says about the loop."""
    return LoopOptions(
        seed=experiment.seed,
        participation=experiment.cohort,
        quorum=experiment.quorum,
        buffer=experiment.buffer,
        reducer=experiment.robust or DEFAULT_REDUCER,
    )


def _tables(clients: Any, kind: str) -> dict[str, Table]:
    """Return tables as they are; all others are read together, so that they agree on marks and kinds of times."""
    if isinstance(clients, Table) or clients is None or (isinstance(clients, Mapping) and not clients):
        got = f"a table of {clients.kind}; pass {{'name': table}}" if isinstance(clients, Table) else "none"
        raise DataError(f"clients must be a mapping from client name to table with at least one client, got {got}")
    if not isinstance(clients, Mapping):
        return _read(clients, kind)
    found = {str(name): table for name, table in clients.items() if isinstance(table, Table)}
    if others := {str(name): part for name, part in clients.items() if not isinstance(part, Table)}:
        read = {name.casefold(): table for name, table in _read(others, kind).items()}
        found |= {name: read[name.casefold()] for name in others}
    return {name: found[name] for name in sorted(found)}


def _read(source: Any, kind: str) -> dict[str, Table]:
    found: dict[str, Table] = READERS[kind](source)
    if kind == "events" and any(table.unit for table in found.values()):
        advice = "for rates per hour pass ct.read_events(clients, unit='h')"
        warn(f"dates are counted in seconds, and so are rates; {advice}")
    return found


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
