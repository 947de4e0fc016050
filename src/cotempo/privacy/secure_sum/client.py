"""`SumClient`: one client's part of the protocol, in the order of its stages.

The client trusts nobody but the pinned keys. Whatever is asked of it, it keeps these rules:

- it masks once in a session, and tells the same again to the same question;
- with what it masks it signs that all who shared survive; told otherwise, it signs one smaller set, and never another;
- it reveals once in a session, for the set it signed last, if enough others have signed it too;
- of a peer it reveals either the share of the seed or the share of the mask key, as that set says: nobody can ask;
- in a step it helps to reveal the sums of one set of survivors only, or two sums would differ by one addend;
- what it is about to send is in its journal before it is sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from cotempo.errors import MessageError
from cotempo.federation.message import EMPTY, Message
from cotempo.privacy.secure_sum.disputes import PEERS, Accusation
from cotempo.privacy.secure_sum.envelopes import ENVELOPE_BYTES, KEY_BYTES, NONCE_BYTES, Shares, seal, unseal
from cotempo.privacy.secure_sum.fixed_point import Layout, addends, encode
from cotempo.privacy.secure_sum.identity import (
    Identity,
    announcement,
    is_signed,
    survivors_statement,
)
from cotempo.privacy.secure_sum.masks import (
    add_mask,
    agree,
    commitment,
    derive,
    digest,
    expand,
    is_point,
    pair_mask_key,
    private_key,
    self_mask_key,
)
from cotempo.privacy.secure_sum.neighbours import Neighbours
from cotempo.privacy.secure_sum.session import (
    ECHOED,
    MASKED,
    REVEALED,
    SHARED,
    Journal,
    Session,
    sessions_from_bytes,
    sessions_to_bytes,
)
from cotempo.privacy.secure_sum.shamir import Random, random_secret, split, threshold
from cotempo.privacy.secure_sum.vault import NoVault, Vault
from cotempo.typing import Array

FEWEST = 3  # of two clients each knows the other's addend
MOST_SESSIONS = 16  # a step; an honest server needs three, and some more if it is killed and resumed
KEPT_MESSAGES = 3  # as many as a site keeps answers


class SumClient:
    """One client in one run.

    Parameters
    ----------
    identity
        The client's long-term signing key.
    peers
        The pinned public keys of all clients that may take part, by name.
    run
        The run's identity, to which keys are bound.
    vault
        Where secrets and journal are kept; by default in this process only.
    random
        Where keys, seeds and nonces come from; only tests give another than the operating system's generator.
    """

    def __init__(
        self,
        identity: Identity,
        peers: Mapping[str, bytes],
        run: str,
        *,
        vault: Vault | None = None,
        random: Random = os.urandom,
    ):
        self.identity = identity
        self.name = identity.name
        self.peers = peers
        self.run = run
        self.vault = vault or NoVault()
        self.random = random
        self._withheld: dict[int, Message] = {}
        self._seal_keys: dict[tuple[str, bytes], bytes] = {}
        self._neighbours: tuple[str, Neighbours] | None = None
        stored = self.vault.load("journal")
        self.journal = Journal() if stored is None else Journal.from_bytes(stored)
        self.session: Session | None = None
        self.prepared: Session | None = None  # opened along with the last reveal, for what is summed next
        if (stored := self.vault.load("session")) is not None:
            self.session, self.prepared = sessions_from_bytes(stored)
        secret = self.vault.load("key")
        if secret is None:
            secret = random(KEY_BYTES)
            self.vault.save("key", secret)
        self._key = X25519PrivateKey.from_private_bytes(secret)

    # What the method answered, which stays here.

    def withhold(self, step: int, phase: str, message: Message, noised_among: int = 0) -> None:
        """Keep what the method answered until it can leave masked.

        What holds a share of noise, for a sum `noised_among` so many, must not be in a sum of fewer.
        """
        self._withheld[step] = message
        for old in sorted(self._withheld)[:-KEPT_MESSAGES]:
            del self._withheld[old]
        if self.vault.is_durable:
            self.vault.save(f"withheld-{step}", message.to_bytes())
            self.vault.drop(f"withheld-{step - KEPT_MESSAGES}")
        if phase not in self.journal.summed or noised_among:
            self.journal.summed = sorted({*self.journal.summed, phase})
            if noised_among:
                self.journal.noised[str(step)] = max(noised_among, self.journal.noised.get(str(step), 0))
            self._save_journal()

    def _message(self, step: int) -> Message:
        if step not in self._withheld:
            stored = self.vault.load(f"withheld-{step}")
            if stored is None:
                raise MessageError("the method must have answered this step before its answer can be masked")
            self._withheld[step] = Message.from_bytes(stored)
        return self._withheld[step]

    # The stages.

    def keys(self) -> Message:
        """Announce this run's key for sealing, signed with the long-term key."""
        key = self._key.public_key().public_bytes_raw()
        return Message(
            {"key": _array(key), "signature": _array(self.identity.sign(announcement(self.run, self.name, key)))}
        )

    def shares(self, step: int, question: Message) -> Message:
        """Open a session: draw a mask key and a seed, and seal a share of both for every neighbour."""
        self.session, message = self._open(step, question)
        self.prepared = None
        self._save_journal()
        self._save_sessions()
        return message

    def _open(self, step: int, question: Message) -> tuple[Session, Message]:
        session, names = str(question["session"]), read_names(question["names"])
        if len(names) < FEWEST or list(names) != sorted(set(names)) or self.name not in names:
            raise MessageError(f"a session must name at least {FEWEST} clients in order, this one among them")
        if strangers := [name for name in names if name not in self.peers]:
            raise MessageError(f"every client must be one whose key is pinned here, {strangers[0]} is not")
        opened = self.journal.sessions.get(str(step), 0) + 1
        if opened > MOST_SESSIONS:
            raise MessageError(f"a step must have at most {MOST_SESSIONS} sessions, this is one more")
        announced = self._announced(names, question["keys"], question["signatures"])
        neighbours = self._graph(names, announced)
        holders, needed = neighbours.holders(self.name), neighbours.needed(self.name)
        mask_secret, seed = random_secret(self.random), random_secret(self.random)
        mask_key = private_key(mask_secret).public_key().public_bytes_raw()
        seeds = split(seed, needed, len(holders), self.random)
        secrets = split(mask_secret, needed, len(holders), self.random)
        shares = {holder: Shares(mask_key, *parts) for holder, *parts in zip(holders, seeds, secrets, strict=True)}
        envelopes = [
            seal(
                self._seal_key(holder, announced[holder][0]), shares[holder], session, (self.name, holder),
                self.random(NONCE_BYTES),
            )
            for holder in holders if holder != self.name
        ]  # fmt: skip
        own = {self.name: shares[self.name]}
        peer_keys = {holder: announced[holder][0].hex() for holder in holders}
        self.journal.sessions[str(step)] = opened
        made = Session(
            session, step, list(names), list(holders), peer_keys, mask_secret, seed, self.random(32).hex(), own
        )
        return made, Message(
            {
                "mask_key": _array(mask_key),
                "commitment": _array(commitment(seed, session, self.name)),
                "envelopes": _array(b"".join(envelopes)).reshape(-1, ENVELOPE_BYTES),
                "accused": np.zeros(0, PEERS),
            }
        )

    def masked(self, question: Message, own: Message) -> Message:
        """Encode the withheld message and mask it: with one's own mask, and with one for each neighbour that shared.

        Of a pair the first in name order adds the mask and the other takes it away. The signature says that all who
        shared survive; zeros in place of it, that a sum over others was revealed before.
        """
        session = self.find(question["session"])
        members, layout = read_names(question["members"]), Layout.from_text(question["layout"])
        agreed = digest("agreed", self.run, session.step, layout.kind, question["members"], question["layout"])
        request = digest("masked", agreed, own["envelopes"].tobytes())
        if session.stage == SHARED:
            if layout.clients != len(session.names):
                raise MessageError(f"the layout must be for {len(session.names)} clients, got {layout.clients}")
            self._require_enough(session, members, session.names)
            noised_among = self.journal.noised.get(str(session.step), 0)
            if noised_among and (layout.kind != "data" or len(session.names) < noised_among):
                raise MessageError(f"what was noised must be summed as it is, among at least {noised_among} clients")
            present = {*members} - {self.name}
            senders = [name for name in session.holders if name in present]
            if own["envelopes"].shape != (len(senders), ENVELOPE_BYTES):
                raise MessageError("there must be one envelope from every neighbour that shared")
            session.shares = {self.name: session.shares[self.name], **self._unseal(session, senders, own["envelopes"])}
        elif session.request != request:
            raise MessageError("a client masks once in a session, it was asked before with another content")
        if session.stage == SHARED:
            # Stored before anything can fail: asked with one layout after the other, failures would tell sizes.
            if session is self.prepared:
                self.session, self.prepared = session, None
            session.members, session.agreed, session.request, session.stage = list(members), agreed, request, MASKED
            session.kind, session.survivors = layout.kind, session.members
            self._save_sessions()
        if session.stage != MASKED:
            raise MessageError("a session that was revealed must not be masked again")
        vector = encode(addends(self._message(session.step), layout), layout, _stream(session.private))
        add_mask(vector, self_mask_key(session.seed, session.id, self.name))
        for name, held in session.shares.items():
            if name != self.name:
                add_mask(vector, self._pair(session, name, held), subtract=self.name > name)
        signature = self.identity.sign(self._statement(session)) if self._may_reveal(session, members) else bytes(64)
        return Message({"masked": vector, "signature": _array(signature), "accused": np.zeros(0, PEERS)})

    def echo(self, question: Message) -> Message:
        """Sign whose masked messages came if some did not; one set a session, and one a step that was revealed."""
        session, survivors = self.find(question["session"]), read_names(question["survivors"])
        if session.stage == MASKED:
            self._require_enough(session, survivors, session.members)
            if not self._may_reveal(session, survivors):
                raise MessageError(
                    "a sum of this step was revealed before; it can be repeated with the same clients only"
                )
            session.survivors, session.stage = list(survivors), ECHOED
            self._save_sessions()
        elif session.stage == SHARED or session.survivors != list(survivors):
            raise MessageError("a client signs one set of survivors in a session, and only once it has masked")
        return Message({"signature": _array(self.identity.sign(self._statement(session)))})

    def unmask(self, question: Message, following: Message = EMPTY) -> Message:
        """Reveal a share of the seed of every survivor and of the mask key of every other, once enough have signed.

        `following` is the question of `shares` for what is summed next, in this `step` or the one after it; it is
        answered in the same message.
        """
        session = self.find(question["session"])
        if session.stage == SHARED or not self._may_reveal(session, session.survivors):
            raise MessageError("a client reveals shares only for survivors it has signed")
        signers, signatures = read_names(question["signers"]), question["signatures"]
        if signatures.shape != (len(signers), 64):
            raise MessageError("there must be one signature of every signer")
        near, statement, valid = {*session.holders} & {*session.survivors}, self._statement(session), 0
        for name, signature in zip(signers, signatures, strict=True):
            if name in near and is_signed(self.peers, name, statement, signature.tobytes()):
                near.remove(name)
                valid += 1
            if valid >= threshold(len(session.holders)):
                break
        else:
            raise MessageError("more than two thirds must have signed the same survivors and the same layout")
        self.journal.revealed[_occasion(session)] = digest(*session.survivors)
        opened = EMPTY
        if following:
            if following["step"] not in (session.step, session.step + 1):
                raise MessageError("a session must be opened for this step or the next one")
            self.prepared, opened = self._open(following["step"], following)
        self._save_journal()
        # Only shares are needed from here on.
        session.stage, session.mask_secret, session.seed, session.private = REVEALED, 0, 0, ""
        self._save_sessions()
        survived = {*session.survivors}
        revealed = [held.seed if owner in survived else held.key for owner, held in sorted(session.shares.items())]
        return Message({"shares": _array(b"".join(revealed)).reshape(len(revealed), -1), **opened})

    # What the stages rest on.

    def find(self, name: object) -> Session:
        """Return a session by its name: the last one that was masked, or the one opened after it."""
        for session in (self.session, self.prepared):
            if session is not None and session.id == name:
                return session
        raise MessageError("the session must be one this client has open")

    def _statement(self, session: Session) -> bytes:
        return survivors_statement(session.id, session.agreed, session.survivors)

    def _require_enough(self, session: Session, chosen: Sequence[str], among: Sequence[str]) -> None:
        """Raise `MessageError` unless over two thirds of all invited, and of the holders, are left."""
        if list(chosen) != sorted(set(chosen)) or not {*chosen} <= {*among} or self.name not in chosen:
            raise MessageError("the clients left must be in order, invited, and this one among them")
        near = len({*chosen} & {*session.holders})
        if len(chosen) < threshold(len(session.names)) or near < threshold(len(session.holders)):
            raise MessageError(f"more than two thirds of {len(session.names)} clients must be left, got {len(chosen)}")

    def _announced(self, names: Sequence[str], keys: Array, signatures: Array) -> dict[str, tuple[bytes, bytes]]:
        if keys.shape != (len(names), KEY_BYTES) or signatures.shape != (len(names), 64):
            raise MessageError("there must be one key and one signature of every client")
        announced = {
            name: (key.tobytes(), signature.tobytes())
            for name, key, signature in zip(names, keys, signatures, strict=True)
        }
        if announced[self.name][0] != self._key.public_key().public_bytes_raw():
            raise MessageError("this client's key must be the one it announced")
        return announced

    def _graph(self, names: Sequence[str], announced: Mapping[str, tuple[bytes, bytes]]) -> Neighbours:
        """Return who is joined with whom; keys of one's own neighbours are verified."""
        seed = digest("graph", *names, *(key for key, _ in announced.values()))
        if self._neighbours is None or self._neighbours[0] != seed:
            self._neighbours = seed, Neighbours(names, seed.encode())
        graph = self._neighbours[1]
        others, unsigned = graph.others(self.name), []
        for name in others:
            key, signature = announced[name]
            if (name, key) not in self._seal_keys:
                is_right = is_signed(self.peers, name, announcement(self.run, name, key), signature) and is_point(key)
                unsigned += [] if is_right else [name]
        if unsigned:
            raise Accusation(others, unsigned)
        return graph

    def _unseal(self, session: Session, senders: Sequence[str], envelopes: Array) -> dict[str, Shares]:
        """Return what is in the envelopes; raise `Accusation` of all who sent one that cannot be used."""
        held, bad = dict[str, Shares](), []
        for name, envelope in zip(senders, envelopes, strict=True):
            key = self._seal_key(name, bytes.fromhex(session.peer_keys[name]))
            try:
                held[name] = unseal(key, envelope.tobytes(), session.id, (name, self.name))
                self._pair(session, name, held[name])
            except MessageError:
                bad.append(name)
        if bad:
            raise Accusation([name for name in session.holders if name != self.name], bad)
        return held

    def _pair(self, session: Session, name: str, held: Shares) -> bytes:
        """Return the key of the mask of this client and a peer."""
        return pair_mask_key(private_key(session.mask_secret), held.mask_key, session.id, (self.name, name))

    def _seal_key(self, name: str, key: bytes) -> bytes:
        """Return the key shared with a peer, agreed on once a run; it seals both ways, each bound to its way."""
        if (name, key) not in self._seal_keys:
            self._seal_keys[name, key] = derive(agree(self._key, key), "seal", self.run, *sorted((self.name, name)))
        return self._seal_keys[name, key]

    def _may_reveal(self, session: Session, survivors: Sequence[str]) -> bool:
        """Return whether no sum over others was revealed in this step."""
        return self.journal.revealed.get(_occasion(session), digest(*survivors)) == digest(*survivors)

    def _save_sessions(self) -> None:
        if self.vault.is_durable:
            self.vault.save("session", sessions_to_bytes(self.session, self.prepared))

    def _save_journal(self) -> None:
        if self.vault.is_durable:
            self.vault.save("journal", self.journal.to_bytes())


def _occasion(session: Session) -> str:
    return f"{session.step} {session.kind}"


def _stream(private: str) -> Any:
    """Return a source of random words of one session, the same whenever it is asked again."""
    drawn = 0

    def draw(count: int) -> Array:
        nonlocal drawn
        drawn += 1
        return expand(derive(bytes.fromhex(private), "random words", drawn), count).copy()

    return draw


def _array(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8)


def read_names(text: str) -> tuple[str, ...]:
    """Return a list of names from JSON."""
    try:
        names = json.loads(text)
    except (ValueError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MessageError("a list of clients must be JSON text")
    return tuple(names)
