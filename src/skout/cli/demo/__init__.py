"""The demonstration: complete handwritten digits, with five maps through one predictor.

Nothing here prints or needs an extra; the command line (`skout demo`) does the talking.
"""

from .page import write_page
from .picture import write_picture
from .run import DemoRun, MethodRun, run_demo
from .storage import numbers_stored

__all__ = [
    "DemoRun",
    "MethodRun",
    "numbers_stored",
    "run_demo",
    "write_page",
    "write_picture",
]
