"""An analyst of social media: three platforms, three languages, from files to events, a figure, a report, the next day.

    python examples/platforms.py [FOLDER]

Each platform keeps its posts; what they learn together is sums. The script writes its own files first: two weeks of
posts about three events, half of them without a label, and the next day, with an event that nobody has seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct
from cotempo.social import EventDetector

FILLERS = {
    "en": "the and was this that now from all with here",
    "es": "los las del una por para con ahora todos aquí",
    "it": "gli della per una non sono con adesso tutti qui",
}
TOPICS = {
    "flood": {
        "en": "flood river bridge water rescue boats levee rain",
        "es": "inundación río puente agua rescate botes dique lluvia",
        "it": "alluvione fiume ponte acqua soccorso barche argine pioggia",
    },
    "strike": {
        "en": "strike union trains station wages pickets delay drivers",
        "es": "huelga sindicato trenes estación salarios piquetes retraso maquinistas",
        "it": "sciopero sindacato treni stazione salari picchetti ritardo macchinisti",
    },
    "concert": {
        "en": "concert singer stage tickets stadium encore crowd guitar",
        "es": "concierto cantante escenario entradas estadio bis público guitarra",
        "it": "concerto cantante palco biglietti stadio bis folla chitarra",
    },
    "wildfire": {
        "en": "wildfire smoke forest evacuation flames firefighters hills ash",
        "es": "incendio humo bosque evacuación llamas bomberos colinas ceniza",
        "it": "incendio fumo bosco evacuazione fiamme pompieri colline cenere",
    },
}
ZONES = {"en": "Europe/London", "es": "Europe/Madrid", "it": "Europe/Rome"}


def write_posts(path: Path, language: str, counts: dict[str, int], start: str, days: int, seed: int) -> None:
    """Write posts of some events in one language, with times of its zone, labelled half of the time."""
    rng = np.random.default_rng(seed)
    rows = []
    for event, count in counts.items():
        begin = rng.uniform(0, days / 2)
        for _ in range(count):
            words = [*rng.choice(TOPICS[event][language].split(), 5, replace=False)]
            words += [*rng.choice(FILLERS[language].split(), 4, replace=False)]
            day = begin + rng.uniform(0, days - begin)
            when = pd.Timestamp(start, tz=ZONES[language]) + pd.Timedelta(days=day)
            label = event if rng.random() < 0.5 else None
            rows.append({"time": when.floor("s").isoformat(), "text": " ".join(rng.permutation(words)), "event": label})
    pd.DataFrame(rows).sample(frac=1, random_state=seed).to_csv(path, index=False)


def main(folder: Path) -> None:
    (folder / "posts").mkdir(parents=True, exist_ok=True)
    for seed, language in enumerate(ZONES):
        history = {"flood": 60, "strike": 50, "concert": 40}
        write_posts(folder / "posts" / f"{language}.csv", language, history, "2025-03-01", 14, seed)
    write_posts(folder / "today.csv", "es", {"flood": 10, "wildfire": 40}, "2025-03-15", 1, 7)

    # From files to events: one file a platform; what leaves a platform are sums of counts.
    platforms = ct.read_posts(folder / "posts")
    fitted = EventDetector().fit(platforms, progress=False)
    detector = fitted["es"]
    print(detector.events()[["event", "size", "start", "end", "keywords", "languages", "told_apart"]].to_string())
    print(f"quality of the events at es: {detector.quality:.2f}")

    # The next day: what is new?
    today = pd.read_csv(folder / "today.csv")[["time", "text"]]
    detection = detector.detect(today)
    print(detection)
    today.assign(event=detection.event, confidence=detection.confidence).to_csv(folder / "detected.csv", index=False)
    detector.partial_fit(today)
    print(detector.events()[["event", "size", "start", "end", "keywords", "active"]].to_string())

    # Figure, report and table; and the detector, with its stream, for tomorrow.
    detector.plot().savefig(folder / "events.png")
    fitted.report(folder / "report.html")
    detector.events().to_csv(folder / "events.csv", index=False)
    fitted.save(folder / "fitted")
    assert ct.load(folder / "fitted")["es"].events().equals(detector.events())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "platforms"))
