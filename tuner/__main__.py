"""``python -m tuner``: the same as the program ``tuner``."""

from tuner.cli import main

if __name__ == "__main__":
    main()
