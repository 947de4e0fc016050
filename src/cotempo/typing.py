"""Names for the arrays that annotations speak of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
