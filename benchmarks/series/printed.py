"""Context-FID as printed in the FedTDD paper, to stand beside ours: tables 2, 3, 5, 6, 7 and 8."""

from __future__ import annotations

DATA = ("stocks", "etth", "mujoco", "energy", "fmri")
CONTEXT_FID = {
    "2": {
        "Centralized*": (0.682, 0.281, 0.782, 0.533, 1.737),
        "Centralized": (3.548, 8.870, 10.00, 9.343, 13.56),
        "Local": (1.648, 1.313, 0.751, 1.179, 1.694),
        "Pre-trained, paper": (1.047, 0.326, 0.617, 0.412, 1.411),
        "FedTDD, paper": (0.675, 0.271, 0.529, 0.376, 1.459),
    },
    "3": {
        "Centralized*": (0.682, 0.281, 0.782, 0.533, 1.737),
        "Centralized": (3.733, 11.54, 14.68, 13.17, 15.34),
        "Local": (1.982, 0.824, 0.660, 0.844, 1.220),
        "Pre-trained, paper": (0.738, 0.316, 0.547, 0.381, 1.178),
        "FedTDD, paper": (0.680, 0.267, 0.510, 0.331, 1.196),
    },
    "5": {
        "Centralized*": (0.389, 0.179, 0.591, 0.500, 1.239),
        "Centralized": (4.255, 7.405, 8.273, 12.75, 11.37),
        "Local": (1.372, 1.240, 0.956, 1.838, 1.491),
        "Pre-trained, paper": (0.483, 0.300, 0.567, 0.488, 1.267),
        "FedTDD, paper": (0.367, 0.230, 0.562, 0.468, 1.322),
    },
    "6": {
        "Centralized*": (0.682, 0.281, 0.782, 0.533, 1.737),
        "Centralized": (4.373, 8.080, 10.35, 8.951, 15.01),
        "Local": (3.010, 1.237, 0.851, 1.202, 2.055),
        "Pre-trained, paper": (0.802, 0.413, 0.642, 0.472, 1.372),
        "FedTDD, paper": (0.699, 0.365, 0.636, 0.433, 1.462),
    },
    "7": {
        "Centralized*": (1.911, 1.736, 1.933, 3.361, 2.311),
        "Centralized": (5.057, 11.45, 11.39, 11.78, 15.01),
        "Local": (1.355, 0.813, 0.703, 0.961, 1.676),
        "Pre-trained, paper": (0.568, 0.320, 0.644, 0.583, 1.540),
        "FedTDD, paper": (0.463, 0.258, 0.675, 0.570, 1.549),
    },
    "8": {
        "1:0": (1.012, None, None, None, 1.419),
        "1:1": (1.090, None, None, None, 2.078),
        "1:[0,1]": (0.675, None, None, None, 1.785),
        "1:alpha[0,1]": (0.675, None, None, None, 1.459),
    },
}


def printed(table: str, method: str, data: str) -> float | str:
    """The printed number, or nothing where there is none."""
    found = CONTEXT_FID.get(table, {}).get(method)
    value = None if found is None else found[DATA.index(data)]
    return "" if value is None else value
