"""The demonstration: complete handwritten digits, with five maps through one predictor.

Nothing here prints; the command line (`skout demo`) does the talking.
"""

from .page import write_page, write_picture
from .run import DemoRun, MethodRun, run_demo

__all__ = ["DemoRun", "MethodRun", "run_demo", "write_page", "write_picture"]
