"""`SecureSum`: the reducer that is given only masked messages and returns their sum."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from cotempo.errors import MessageError, ParameterError, QuorumError
from cotempo.federation.exchange import Answers, Expect, Failure, Question, Reply
from cotempo.federation.message import EMPTY, Message
from cotempo.federation.reducers import Exchange, PlainReducer
from cotempo.privacy.secure_sum.disputes import Disputes
from cotempo.privacy.secure_sum.envelopes import ENVELOPE_BYTES
from cotempo.privacy.secure_sum.expected import (
    ANNOUNCED,
    ECHOED,
    REVEALED,
    REVEALED_AND_SHARED,
    SHARED,
    check_total,
    opaque,
    require_enough,
)
from cotempo.privacy.secure_sum.fixed_point import (
    WEIGHT,
    Layout,
    ScaleExceeded,
    decode,
    decode_sizes,
)
from cotempo.privacy.secure_sum.masks import digest, is_point
from cotempo.privacy.secure_sum.neighbours import Neighbours
from cotempo.privacy.secure_sum.scales import ScaleBook
from cotempo.privacy.secure_sum.shamir import threshold
from cotempo.privacy.secure_sum.shield import ECHO, KEYS, MASKED, SHARES, UNMASK
from cotempo.privacy.secure_sum.unmasking import remove_masks
from cotempo.typing import Array


class SumAborted(QuorumError):  # noqa: N818 - it says what happened
    """A secure sum could not be completed; nothing about single clients was revealed, and the run can be resumed."""


class SecureSum:
    """Gathers sums of which no addend is seen; the protocol is described in `cotempo.privacy.secure_sum`.

    Parameters
    ----------
    singles
        What to do in phases that need single answers: ``"allow"`` them in the clear, or ``"refuse"`` them.
    scales
        A file for the public scales, so that a resumed run rounds as the first one did.
    announces
        Whether clients are told the next session when they mask, so that those who hear each other's signatures can
        reveal before they are asked; worth its bytes where an exchange takes long.
    """

    def __init__(
        self, *, singles: Literal["allow", "refuse"] = "allow", scales: Path | None = None, announces: bool = False
    ):
        self.singles = singles
        self.announces = announces
        self.scales = ScaleBook(scales)
        self.keys: dict[tuple[str, str], tuple[Array, Array]] = {}
        self.prepared: _Opened | None = None
        self.disputes = Disputes()

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Sum a step's answers under masks, or list them if the step needs single answers."""
        if not expect.sums or not questions:
            if questions and self.singles == "refuse":
                raise ParameterError(
                    f"every phase must be a sum where single answers are refused, {questions[0].phase!r} is not"
                )
            return PlainReducer().gather(exchange, questions, expect)
        require_enough(len(questions))
        return _SecureStep(self, exchange, questions, expect).run()


@dataclass(frozen=True)
class _Opened:
    """A session as the server sees it: its question, its step, its graph, and what each client that shared sent."""

    id: str
    run: str
    step: int
    names: Sequence[str]
    neighbours: Neighbours
    question: Message
    replies: Mapping[str, Message] = field(default_factory=dict)

    def with_replies(self, replies: Mapping[str, Message]) -> _Opened:
        """Return the session with what clients sent, less those that sent no key or too few envelopes."""
        right = {
            name: reply
            for name, reply in replies.items()
            if len(reply["envelopes"]) == len(self.neighbours.holders(name)) - 1
            and not len(reply["accused"])
            and is_point(reply["mask_key"].tobytes())
        }
        return replace(self, replies=right)


class _SecureStep:
    """One step of the loop under the secure sum."""

    def __init__(self, reducer: SecureSum, exchange: Exchange, questions: Sequence[Question], expect: Expect):
        self.reducer = reducer
        self.exchange = exchange
        self.questions = {question.client: question for question in questions}
        self.first = questions[0]
        self.expect = expect
        self.failures: dict[str, Failure] = {}
        self.versions: dict[str, int] = {}
        self.keys: dict[str, tuple[Array, Array]] = {}
        self.needed = threshold(len(questions))
        self.has_revealed = False  # a sum of data, in this step

    def run(self) -> Answers:
        """Sum on the scales that are known or usual, or agree on some first; agree and repeat if values do not fit.

        Of its two exchanges, one lets the method answer and mask, the other reveals shares and opens the next session.
        The first step exchanges keys and shares before; one in which somebody left, signatures of who survived.
        """
        names = self._announce()
        step, phase, book = self.first.step, self.first.phase, self.reducer.scales
        empty = Layout.of("range", len(names), self.expect)
        coarse: Answers | None = None
        for _ in range(2):
            scales = self._public_scales() or book.find(step, phase, empty)
            usual = None if scales or book.has_agreed(step, phase, empty) else empty.with_usual_scales()
            try:
                if scales is None and usual is None:
                    scales = self._agree(names, empty)
                    book.store(step, phase, empty, scales)
                layout = usual or empty.with_scales(scales or {})
                vector, survivors = self._sum(names, layout, is_agreed=usual is None)
                total_message, has_shrunk = decode(vector, layout)
            except ScaleExceeded:
                book.store(step, phase, empty, None)
                continue
            except SumAborted:
                if coarse is None:
                    raise
                return coarse  # somebody left: what was revealed can be repeated among the same only
            found = self._answers(survivors, total_message)
            if has_shrunk:
                book.store(step if usual else step + 1, phase, empty, None)
            if usual is None or not has_shrunk:
                return found
            coarse = found
        raise SumAborted("values must fit the scale that was just agreed on, those of some clients do not")

    def _agree(self, names: Sequence[str], empty: Layout) -> dict[str, tuple[int, int]]:
        """Agree on scales; leave out those whose values would drown all others, unless there are many of them.

        After a first sum of data nobody may be left out: clients reveal a second one only among the same.
        """
        scales = decode_sizes(self._sum(names, empty)[0], empty)
        limited = None if self.has_revealed else empty.with_limits(scales)
        if limited is None:
            return scales
        failures = dict(self.failures)
        try:
            return decode_sizes(self._sum(names, limited)[0], limited)
        except SumAborted:
            self.failures = failures
            return scales

    def _public_scales(self) -> dict[str, tuple[int, int]] | None:
        """Return the scales of fields whose values all lie on a known grid, with weights of 1."""
        grids = {name: spec.grid for name, spec in self.expect.fields.items()}
        if None in grids.values() or self.expect.weight != (1.0, 1.0):
            return None
        return {WEIGHT: (0, 1), **{name: (-grid, 1) for name, grid in grids.items() if grid is not None}}

    def _answers(self, survivors: Sequence[str], total: Message) -> Answers:
        try:
            check_total(total, self.expect)
        except MessageError as error:
            raise SumAborted(f"a sum of valid answers must be valid, some client's answer was not: {error}") from error
        failures = [failure for name, failure in sorted(self.failures.items()) if name not in survivors]
        versions = {name: self.versions[name] for name in survivors}
        return Answers(tuple(survivors), total=total, versions=versions, failures=tuple(failures))

    # The stages, in order.

    def _announce(self) -> list[str]:
        """Ask clients whose key of this run is not known for it; return those whose keys others accept."""
        run, known = self.first.run, self.reducer.keys
        wanted = [name for name in self.questions if (run, name) not in known]
        for name, message in self._ask(KEYS, wanted, EMPTY, expect=ANNOUNCED).items():
            known[run, name] = message["key"], message["signature"]
        self.keys = {name: known[run, name] for name in sorted(self.questions) if (run, name) in known}
        while True:
            self._require(list(self.keys), "announced a key")
            opened = self._take_prepared(list(self.keys)) or self._share(list(self.keys))
            if opened is not None:
                self.reducer.prepared = opened
                return list(self.keys)
            self.keys = {name: key for name, key in self.keys.items() if name not in self.failures}

    def _sum(self, names: Sequence[str], layout: Layout, *, is_agreed: bool = True) -> tuple[Array, list[str]]:
        """Return the sum of the vectors of all that stayed to the masked message, and who they are.

        Raise `ScaleExceeded`, before anything is revealed, if clients refuse a scale that was not agreed on now.
        """
        while True:
            opened = self._take_prepared(names) or self._share(names)
            if opened is None:
                continue
            members, following = sorted(opened.replies), None
            self._require(members, "shared")
            if members == list(opened.names):
                following = self._new_session(opened.names, self.first.step + (layout.kind == "data"))
            total, signed, accusations = self._mask(opened, members, layout, following)
            if not self._settle(opened, accusations, MASKED):
                break
        survivors = sorted(signed)
        if layout.kind == "data" and (len(survivors) < self.needed or not is_agreed):
            refused = {name for name in members if name in self.failures and self.failures[name].kind == "MessageError"}
            if refused:  # all have grown out of an old scale, or somebody does not fit the usual one
                self.failures = {name: failure for name, failure in self.failures.items() if name not in refused}
                raise ScaleExceeded
        self._require(survivors, "sent a masked message")
        if survivors != members or not all(signature.any() for signature in signed.values()):
            signed = self._echo(opened, survivors)
        self.has_revealed |= layout.kind == "data"
        revealed = self._reveal(opened, members, signed, following)
        openings = {
            name: (opened.replies[name]["mask_key"].tobytes(), opened.replies[name]["commitment"].tobytes())
            for name in members
        }
        try:
            total = remove_masks(total, opened.id, opened.neighbours, openings, survivors, revealed)
        except MessageError as error:
            raise SumAborted(f"the masks of this step could not be removed, nothing was revealed: {error}") from error
        return total, survivors

    def _take_prepared(self, names: Sequence[str]) -> _Opened | None:
        """Return the session that was opened along with the last reveal, if it is for this step and these clients."""
        opened, self.reducer.prepared = self.reducer.prepared, None
        if opened is None or (opened.run, opened.step) != (self.first.run, self.first.step):
            return None
        return opened if opened.names == names and {*opened.replies} == {*names} - {*self.failures} else None

    def _new_session(self, names: Sequence[str], step: int) -> _Opened:
        """Return a session to open; its name is random, so that no mask is ever used again."""
        keys, signatures = (np.stack(parts) for parts in zip(*(self.keys[name] for name in names), strict=True))
        session = secrets.token_hex(16)
        question = Message(
            {"session": session, "step": step, "names": json.dumps(names), "keys": keys, "signatures": signatures}
        )
        seed = digest("graph", *names, *(key.tobytes() for key in keys))
        return _Opened(session, self.first.run, step, names, Neighbours(names, seed.encode()), question)

    def _share(self, names: Sequence[str]) -> _Opened | None:
        """Open a session; return `None` if clients accused others, and some were left out."""
        opened = self._new_session(names, self.first.step)
        asked = [name for name in names if name not in self.failures]
        self._require(asked, "could be asked to share")
        replies = self._ask(SHARES, asked, opened.question, expect=SHARED)
        if self._settle(opened, {name: reply["accused"] for name, reply in replies.items()}, SHARES):
            return None
        opened = opened.with_replies(replies)
        for name in asked:
            if name not in opened.replies:
                self._forget(name, SHARES, "a mask key and one envelope for every neighbour must come")
        return opened

    def _settle(self, opened: _Opened, accusations: Mapping[str, Array], stage: str) -> bool:
        """Leave out who is to be left out after accusations; return whether there were any."""
        pairs: list[tuple[str, str]] = []
        present = {*(opened.replies or opened.names)}
        for name, places in accusations.items():
            others = opened.neighbours.others(name)
            if all(place < len(others) and others[place] in present for place in places):
                pairs += [(name, others[place]) for place in places]
            else:
                self._forget(name, stage, "a client must accuse neighbours that take part, it accused others")
        for name in self.reducer.disputes.settle(pairs):
            others = sorted({*sum((pair for pair in pairs if name in pair), ())} - {name})
            self._forget(
                name,
                stage,
                f"what clients send each other must be of use; it and {', '.join(others[:5])} say otherwise",
            )
        return any(len(places) for places in accusations.values())

    def _forget(self, name: str, stage: str, detail: str) -> None:
        """Leave a client out of this step; it may have lost its key, and is asked for it again in the next one."""
        self.failures.setdefault(name, Failure(name, self.first.step, stage, "MessageError", detail))
        self.reducer.keys.pop((self.first.run, name), None)

    def _mask(
        self, opened: _Opened, members: Sequence[str], layout: Layout, following: _Opened | None
    ) -> tuple[Array, dict[str, Array], dict[str, Array]]:
        """Hand every client its envelopes and what the method asks, unless it was; add up masked messages as they come.

        Return their sum, the signatures of those who sent one, and whom others accuse instead.
        """
        graph, present = opened.neighbours, {*members}
        places = {name: {other: row for row, other in enumerate(graph.others(name))} for name in members}
        inboxes, announced = {}, following.question if following and self.reducer.announces else EMPTY
        for name in members:
            senders = [other for other in graph.others(name) if other in present]
            rows = [opened.replies[sender]["envelopes"][places[sender][name]] for sender in senders]
            envelopes = np.stack(rows) if rows else np.zeros((0, ENVELOPE_BYTES), np.uint8)
            inboxes[name] = Message({"envelopes": envelopes, **announced})
        common = Message({"session": opened.id, "members": json.dumps(members), "layout": layout.to_text()})
        fields = {"masked": ((layout.length,), "uint64"), "signature": ((64,), "uint8"), "accused": ((None,), "uint16")}
        expect = replace(opaque(**fields), sums=True)
        questions = self._questions(MASKED, members, common, inboxes)
        if is_first := not present <= {*self.versions}:
            questions = [replace(self.questions[question.client], then=question) for question in questions]
        total, signed, accusations = np.zeros(layout.length, "<u8"), {}, {}
        for reply in self._replies(questions, expect):
            assert reply.message is not None
            if is_first:
                self.versions[reply.client] = reply.version
            if len(reply.message["accused"]):
                accusations[reply.client] = reply.message["accused"]
                continue
            total += reply.message["masked"]
            signed[reply.client] = reply.message["signature"]
        for name in present - {*signed, *accusations}:
            self._forget(name, MASKED, "no masked message came")
        return total, signed, accusations

    def _echo(self, opened: _Opened, survivors: Sequence[str]) -> dict[str, Array]:
        """Let all sign who survived, as not all did who shared."""
        common = Message({"session": opened.id, "survivors": json.dumps(survivors)})
        signed = self._ask(ECHO, survivors, common, expect=ECHOED)
        self._require(list(signed), "signed the survivors")
        return {name: message["signature"] for name, message in signed.items()}

    def _reveal(
        self, opened: _Opened, members: Sequence[str], signed: Mapping[str, Array], following: _Opened | None
    ) -> dict[str, dict[str, bytes]]:
        """Ask for shares, which are returned by owner and holder; open the next session if all are there."""
        signers = sorted(signed)
        common = Message(
            {
                "session": opened.id,
                "signers": json.dumps(signers),
                "signatures": np.stack([signed[name] for name in signers]),
            }
        )
        if signers != list(opened.names):
            following = None
        expect = REVEALED_AND_SHARED if following else REVEALED
        own = dict.fromkeys(signers, following.question if following else EMPTY)
        revealed: dict[str, dict[str, bytes]] = {name: {} for name in members}
        replies = {
            reply.client: reply.message
            for reply in self._replies(self._questions(UNMASK, signers, common, own), expect)
            if reply.message is not None
        }
        self._require(list(replies), "revealed their shares")
        if following:
            self.reducer.prepared = following.with_replies(replies)
        for holder, message in replies.items():
            owners = [owner for owner in opened.neighbours.holders(holder) if owner in revealed]
            if len(message["shares"]) == len(owners):
                for owner, share in zip(owners, message["shares"], strict=True):
                    revealed[owner][holder] = share.tobytes()
        return revealed

    # What the stages rest on.

    def _ask(self, stage: str, names: Iterable[str], common: Message, *, expect: Expect) -> dict[str, Message]:
        """Ask clients a question of the protocol, and return what came; note who failed."""
        replies = self._replies(self._questions(stage, names, common, {}), expect)
        return {reply.client: reply.message for reply in replies if reply.message is not None}

    def _questions(
        self, stage: str, names: Iterable[str], common: Message, own: Mapping[str, Message]
    ) -> list[Question]:
        return [replace(self.questions[name], phase=stage, common=common, own=own.get(name, EMPTY)) for name in names]

    def _replies(self, questions: Sequence[Question], expect: Expect) -> Iterator[Reply]:
        """Yield the replies with a message; note who failed."""
        for reply in self.exchange(questions, expect) if questions else ():
            if reply.message is None:
                self.failures[reply.client] = _failure(reply)
            else:
                yield reply

    def _require(self, names: Sequence[str], did: str) -> None:
        """Raise `SumAborted` if too few clients are left."""
        if len(names) < self.needed:
            listed = "".join(f"\n  {failure}" for failure in list(self.failures.values())[:10])
            raise SumAborted(
                f"more than two thirds of the {len(self.questions)} clients asked must stay to the end of a secure "
                f"sum, {len(names)} {did}; nothing was revealed:{listed}\nThe state is as it was before this step; "
                "with a run folder, resume the run once the clients are back."
            )


def _failure(reply: Reply) -> Failure:
    assert reply.failure is not None  # a reply holds a message or a failure
    return reply.failure
