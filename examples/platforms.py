"""
Platforms: which posts tell of the same event?
==============================================

Three platforms in three languages want to know which of their posts are about the same event, and what is new today.
Each platform keeps its posts; what they learn from each other are sums of counts.
"""

# %%
# The files
# ---------
# Two weeks of posts about three events, half of them without a label; and the next day, with an event nobody has seen.

from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct

OUT = Path("platforms")
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


def write_posts(path, language, counts, start, days, seed):
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


(OUT / "posts").mkdir(parents=True, exist_ok=True)
for seed, language in enumerate(ZONES):
    history = {"flood": 60, "strike": 50, "concert": 40}
    write_posts(OUT / "posts" / f"{language}.csv", language, history, "2025-03-01", 14, seed)
write_posts(OUT / "today.csv", "es", {"flood": 10, "wildfire": 40}, "2025-03-15", 1, 7)

# %%
# From files to events
# --------------------
# One file a platform. What leaves a platform: in how many posts each n-gram occurs, and words by hashed event.

platforms = ct.read_posts(OUT / "posts")
fitted = ct.EventDetector().fit(platforms)
detector = fitted["es"]
detector.events()[["event", "size", "start", "end", "keywords", "told_apart"]]

# %%
# A map and a timeline of the Spanish platform:

figure = detector.plot()

# %%
# Are these the right events? ``quality`` is low for lumps and for pieces; compare it before and after a merge.

print(f"quality of the events at es: {detector.quality:.2f}")

# %%
# The next day: what is new?
# --------------------------
# Posts that fit no known event are outliers, with a confidence that says how sure that is.

today = pd.read_csv(OUT / "today.csv")[["time", "text"]]
detection = detector.detect(today)
print(detection)
today.assign(event=detection.event, confidence=detection.confidence).to_csv(OUT / "detected.csv", index=False)

# %%
# ``partial_fit`` opens an event for outliers that hang together:

detector.partial_fit(today)
detector.events()[["event", "size", "start", "end", "keywords", "active"]]

# %%
# Keep and show
# -------------
# The report quotes a central post of each event: keep it where the posts may be seen.

detector.events().to_csv(OUT / "events.csv", index=False)
figure.savefig(OUT / "events.png")
print("report:", fitted.report(OUT / "report.html"))
fitted.save(OUT / "fitted")  # with its stream, for tomorrow

# %%
# Next: the same event in two languages (``fitted.links()``, with a multilingual encoder), and the same run between the
# platforms themselves: :doc:`/social`, :doc:`/consortium`.
