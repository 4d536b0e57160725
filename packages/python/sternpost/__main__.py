"""`python -m sternpost` and the command `sternpost`: the program itself."""

import os
import subprocess
import sys

from ._server import StartError, find_binary


def main() -> int:
    try:
        binary = find_binary()
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    words = [binary, *sys.argv[1:]]
    if sys.platform == "win32":
        return subprocess.call(words)
    os.execv(binary, words)


if __name__ == "__main__":
    sys.exit(main())
