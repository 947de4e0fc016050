"""Types of arrays, `FloatArray`, `BoolArray` and `Indices`, for the annotations of this family."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Indices = NDArray[np.intp]
