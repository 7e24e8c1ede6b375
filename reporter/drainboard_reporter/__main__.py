"""``python -m drainboard_reporter``."""

import sys

from drainboard_reporter.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
