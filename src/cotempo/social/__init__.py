"""Events in posts: a detector that learns in one round, and graph models that learn together."""

from cotempo.social.baselines import APPLE, SFL, Ditto, FedALA, FedAvg, FedProx, Local, PerFedAvg
from cotempo.social.clustering import cluster_scores
from cotempo.social.dame import DAMe
from cotempo.social.detector.detection import Detection
from cotempo.social.detector.method import EventDetector
from cotempo.social.detector.model import Detector
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.social.encoders.pretrained import CachedEncoder, OnnxEncoder, SentenceEncoder
from cotempo.social.fitted import EventModel

__all__ = [
    "APPLE",
    "SFL",
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
    "PerFedAvg",
    "SentenceEncoder",
    "cluster_scores",
]
