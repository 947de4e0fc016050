"""`read_crisislex`: the labelled messages of CrisisLexT26 and T6, one file per crisis."""

import re
from pathlib import Path

import pandas as pd

from cotempo.data.posts import Posts
from cotempo.data.read.posts import read_posts
from cotempo.errors import DataError

TEXT, IDS = ("tweet text", "tweet"), ("tweet id",)
ENDING = re.compile(r"(-tweets_labeled|-ontopic_offtopic|_labeled)$")
EPOCH = 1288834974657  # milliseconds of the first id that holds a time (November 2010)


def read_crisislex(source: str | Path) -> dict[str, Posts]:
    """Read CrisisLex files and return one client per crisis.

    Parameters
    ----------
    source
        A CSV file ``2013_Alberta_floods-tweets_labeled.csv`` with the columns ``Tweet ID, Tweet Text, ...``, or a
        folder in which such files lie at any depth.

    Returns
    -------
    dict of Posts
        By the name of the crisis, which is also the event of its messages. Times are read from the ids, UTC. Messages
        labelled as not related (``Not related``, ``off-topic``) and further columns are kept in ``extra``; those not
        related have no event.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "2013_Alberta_floods-tweets_labeled.csv"
    >>> head = "Tweet ID, Tweet Text, Information Source, Information Type, Informativeness\\n"
    >>> _ = path.write_text(head + '"348351442404376578","Flood in #Calgary",Eyewitness,Other,Related\\n')
    >>> read_crisislex(path)["2013_Alberta_floods"].hashtags
    (('Calgary',),)
    """
    source = Path(source)
    files = sorted(source.rglob("*.csv")) if source.is_dir() else [source]
    files = [path for path in files if ENDING.search(path.stem)] if source.is_dir() else files
    if not files:
        raise DataError(f"{source} must hold files *-tweets_labeled.csv or *-ontopic_offtopic.csv, got none")
    return read_posts({ENDING.sub("", path.stem): _one_crisis(path) for path in files}, unit="s", zone="UTC")


def _one_crisis(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype=str, skipinitialspace=True, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} must be a CSV file with a head, got: {error}") from error
    frame.columns = [str(name).strip().lower() for name in frame.columns]
    text, number = (next((name for name in names if name in frame), None) for names in (TEXT, IDS))
    if text is None or number is None:
        raise DataError(
            f"{path} must have columns 'Tweet ID' and 'Tweet Text', or 'tweet id' and 'tweet', got {list(frame)}"
        )
    digits = frame[number].str.strip("'\" ")
    wrong = frame[number][~digits.str.fullmatch(r"\d+")]
    if len(wrong):
        raise DataError(f"{path}: an id must be a number, got {wrong.iloc[0]!r} in row {wrong.index[0] + 2}")
    ids = digits.map(int)
    milliseconds = (ids // 2**22 + EPOCH).where(ids >= 2**32)  # older ids hold no time
    label = frame["informativeness"] if "informativeness" in frame else frame.get("label", pd.Series("", frame.index))
    related = ~label.str.strip().str.lower().isin(["not related", "not applicable", "off-topic"])
    crisis = ENDING.sub("", path.stem)
    return pd.DataFrame(
        {
            "time": pd.to_datetime(milliseconds, unit="ms", utc=True),
            "text": frame[text],
            "hashtags": frame[text].map(lambda words: " ".join(re.findall(r"#\w+", words))),
            "mentions": frame[text].map(lambda words: " ".join(re.findall(r"@\w+", words))),
            "event": [crisis if one else None for one in related],
            **{name: frame[name] for name in frame if name not in (text, number)},
        }
    )
