"""The demo: handwritten digits are completed by five maps, all through `StructuredPredictor`.

Nothing here prints: the command `skout demo` does.
"""

from .page import write_page, write_picture
from .run import DemoRun, MethodRun, run_demo

__all__ = ["DemoRun", "MethodRun", "run_demo", "write_page", "write_picture"]
