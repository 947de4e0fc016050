"""Events in posts: a detector that learns in one round, and graph models that learn together."""

from cotempo.social.attacks import Attacked, Backdoor, ParameterNoise, SignFlip
from cotempo.social.baselines import APPLE, SFL, Ditto, FedALA, FedAvg, FedProx, Local, PerFedAvg
from cotempo.social.clustering import cluster_scores
from cotempo.social.dame import DAMe
from cotempo.social.detecting import Detector
from cotempo.social.detection import Detection
from cotempo.social.detector import EventDetector
from cotempo.social.encoder import CharacterEncoder
from cotempo.social.encoder_cache import CachedEncoder
from cotempo.social.fitted import EventModel
from cotempo.social.pretrained import OnnxEncoder, SentenceEncoder

__all__ = [
    "APPLE",
    "SFL",
    "Attacked",
    "Backdoor",
    "CachedEncoder",
    "CharacterEncoder",
    "DAMe",
    "Detection",
    "Detector",
    "Ditto",
    "EventDetector",
    "EventModel",
    "FedALA",
    "FedAvg",
    "FedProx",
    "Local",
    "OnnxEncoder",
    "ParameterNoise",
    "PerFedAvg",
    "SentenceEncoder",
    "SignFlip",
    "cluster_scores",
]
