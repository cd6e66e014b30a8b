"""MLflow: a view of the records, never their source. Importing this loads no MLflow."""

from tuner.tracking.replay import replay
from tuner.tracking.server import ui_address, ui_command
from tuner.tracking.stores import TrackingError
from tuner.tracking.tracker import MlflowTracker

__all__ = ["MlflowTracker", "TrackingError", "replay", "ui_address", "ui_command"]
