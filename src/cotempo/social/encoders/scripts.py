"""`spaced`: texts in scripts that put no spaces between words."""

import re

# Letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han.
UNSPACED = (
    "[\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0f40-\u0fbc\u1000-\u103f\u1780-\u17d3"
    "\u3005\u3041-\u3096\u30a1-\u30fa\u30fc\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]"
)
RUN = re.compile(f"{UNSPACED}+")


def spaced(text: str) -> str:
    """Return a text with pairs of neighbouring letters in place of runs in scripts that put no spaces between words.

    Examples
    --------
    >>> spaced("PK戦で負けた 2-1")
    'PK 戦で で負 負け けた  2-1'
    """
    return RUN.sub(lambda run: f" {' '.join(run[0][at : at + 2] for at in range(max(len(run[0]) - 1, 1)))} ", text)
