"""`make_posts`: posts in several languages about events that some clients share."""

from dataclasses import dataclass

import numpy as np

from cotempo.data.argument_checks import as_generator, check_counts, check_number
from cotempo.data.posts import Posts
from cotempo.data.tables import GENERATORS, client_names, numbered
from cotempo.errors import ParameterError
from cotempo.typing import Floats, Indices

# Invented words, so that posts need no corpus and offend nobody.
SYLLABLES = {
    "en": ("ba", "ter", "lo", "sing", "ma", "ving", "ro", "den", "wes", "ly", "ford", "ness"),
    "fr": ("bou", "lé", "ran", "çon", "vil", "eau", "ché", "mar", "tie", "rou", "dé", "gnon"),
    "de": ("über", "schaft", "gro", "ßen", "lich", "kei", "ten", "mün", "stadt", "wäh", "ler", "zug"),
    "ar": ("با", "ري", "سل", "كت", "من", "دا", "وف", "جم", "لا", "تق", "ها", "شر"),
    "ja": ("さく", "らい", "まち", "かわ", "ゆき", "とう", "ほし", "みず", "そら", "やま", "のは", "ひか"),
}
LANGUAGES = tuple(SYLLABLES)
MOST_WORDS = 12**3
COMMON = 150
TOPIC = 12
AUTHORS = 40
DAYS = 30.0
DELAY = DAYS / 8


def word(language: str, concept: int) -> str:
    """Return the word of a language for a concept; no two concepts share a word."""
    parts = SYLLABLES[language]
    # 7919 is coprime to 12**3: neighbouring concepts look different, and no two share a word.
    code = concept * 7919 % MOST_WORDS
    return "".join(parts[digit] for digit in (code // 144, code // 12 % 12, code % 12))


@dataclass(frozen=True)
class LatentEvent:
    """An event behind the posts; its tag, a name and an account in the texts are spelt the same in all languages."""

    clients: tuple[str, ...]  # that post about it; more than one when it is shared
    onset: float  # in days; the rate of posts about it decays exponentially
    concepts: tuple[int, ...]  # each language has its own word for a concept
    hashtag: str
    entity: str
    account: str


@dataclass(frozen=True)
class PostsTruth:
    """The event of each post, by client and in the order of the table; every event; the language of each client."""

    labels: dict[str, tuple[str, ...]]
    events: dict[str, LatentEvent]
    languages: dict[str, str]
    width: float = DELAY  # mean delay of a post after the onset, in days

    @property
    def shared(self) -> tuple[str, ...]:
        """Names of the events that more than one client posts about."""
        return tuple(name for name, event in self.events.items() if len(event.clients) > 1)


def make_posts(
    clients: int = 3, posts: int = 300, events: int = 30, *, shared: float = 0.2, seed: int = 0
) -> tuple[dict[str, Posts], PostsTruth]:
    """Generate posts about latent events; each client posts in its own language, and some events are shared.

    Posts are spread over 30 days. The languages of the clients are, in turn, en, fr, de, ar, ja.

    Parameters
    ----------
    clients, posts
        The number of clients, and of posts of each.
    events
        The number of events of all clients together.
    shared
        Share of the events that two or more clients post about.
    seed
        Equal seeds give equal posts.

    Returns
    -------
    dict of Posts, PostsTruth
        Time is in days, as a plain number; ``event`` holds the label of every post.

    Examples
    --------
    >>> clients, truth = make_posts(clients=2, posts=50, events=10, seed=1)
    >>> clients["client-0"].event == truth.labels["client-0"], len(truth.shared)
    (True, 2)
    """
    check_counts(clients=clients)
    check_counts(clients, events=events)
    check_counts(events, posts=posts)
    check_number("shared", shared, 0, 1)
    if COMMON + events * TOPIC > MOST_WORDS:
        raise ParameterError(f"events must be at most {(MOST_WORDS - COMMON) // TOPIC}, as words run out, got {events}")
    rng = as_generator(seed)
    names = client_names(clients)
    latent = _latent_events(names, events, shared if clients > 1 else 0.0, rng)
    spoken = {name: LANGUAGES[number % len(LANGUAGES)] for number, name in enumerate(names)}
    streams = zip(names, rng.spawn(clients), strict=True)
    found = {name: _client(name, latent, spoken[name], posts, stream) for name, stream in streams}
    labels = {name: tuple(str(label) for label in table.event) for name, table in found.items()}
    return found, PostsTruth(labels, latent, spoken)


GENERATORS["posts"] = make_posts


def _latent_events(clients: list[str], events: int, shared: float, rng: np.random.Generator) -> dict[str, LatentEvent]:
    concepts = (COMMON + rng.permutation(events * TOPIC)).reshape(events, TOPIC)
    # One onset per interval, with intervals that are short at first, so that a client always has posts.
    onsets = ((np.arange(events) + rng.random(events)) / events) ** 1.5 * 0.9 * DAYS
    together = set(rng.permutation(events)[: round(shared * events)].tolist())
    turn = 0
    found = {}
    for number, name in enumerate(numbered(events)):
        if number in together:
            heard = rng.permutation(len(clients))[: rng.integers(2, len(clients) + 1)]
        else:
            heard, turn = np.array([turn % len(clients)]), turn + 1
        found[f"event-{name}"] = LatentEvent(
            clients=tuple(clients[place] for place in sorted(heard.tolist())),
            onset=float(onsets[number]),
            concepts=tuple(concepts[number].tolist()),
            hashtag=word("en", int(concepts[number, 0])),
            entity=word("en", int(concepts[number, 1])).capitalize(),
            account=f"{word('en', int(concepts[number, 2]))}_news",
        )
    return found


def _client(client: str, events: dict[str, LatentEvent], language: str, posts: int, rng: np.random.Generator) -> Posts:
    heard = [name for name, event in events.items() if client in event.clients]
    if not heard:
        raise ParameterError("events must leave one to every client; ask for more events or a smaller shared")
    # Every event gets at least one post; the others follow its popularity.
    popular = rng.dirichlet(np.full(len(heard), 2.0))
    chosen = np.concatenate([np.arange(len(heard)), rng.choice(len(heard), posts - len(heard), p=popular)])
    onset = np.array([events[heard[place]].onset for place in chosen])
    time = onset + _delays(DAYS - onset, rng)
    order = np.argsort(time, kind="stable")
    label = [heard[place] for place in chosen[order]]
    written = [_write(events[name], language, rng) for name in label]
    return Posts(
        time=time[order],
        text=tuple(text for text, _, _ in written),
        author=tuple(f"{client}-author-{number}" for number in _zipf(AUTHORS, posts, rng).tolist()),
        hashtags=tuple(tags for _, tags, _ in written),
        mentions=tuple(names for _, _, names in written),
        event=tuple(label),
        extra={"language": (language,) * posts},
        present=("time", "author", "hashtags", "mentions", "event"),
    )


def _delays(room: Floats, rng: np.random.Generator) -> Floats:
    """Draw from an exponential distribution cut off at `room`, by inverting its distribution function."""
    return np.asarray(-DELAY * np.log1p(-rng.random(len(room)) * -np.expm1(-room / DELAY)))


def _zipf(count: int, size: int, rng: np.random.Generator) -> Indices:
    weight = 1 / np.arange(1, count + 1)
    return rng.choice(count, size, p=weight / weight.sum())


def _write(event: LatentEvent, language: str, rng: np.random.Generator) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a text, its hashtags and its mentions: about six words in ten come from the event."""
    size = int(rng.integers(6, 15))
    topical = rng.random(size) < 0.6
    ideas = np.where(topical, rng.choice(event.concepts, size), _zipf(COMMON, size, rng))
    words = [word(language, idea) for idea in ideas.tolist()]
    if rng.random() < 0.5:
        words.insert(int(rng.integers(len(words) + 1)), event.entity)
    tags: tuple[str, ...] = (event.hashtag,) if rng.random() < 0.6 else ()
    if rng.random() < 0.2:
        tags += (word(language, int(rng.integers(20))),)
    mentions = (event.account,) if rng.random() < 0.3 else ()
    signed = [f"#{tag}" for tag in tags] + [f"@{name}" for name in mentions]
    return " ".join(words + signed), tags, mentions
