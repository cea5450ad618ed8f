"""``python -m foretrain``: the command line."""

import sys

from foretrain.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
