"""The command `unlabel`, as ``python -m unlabel``."""

from unlabel.cli.main import main

if __name__ == "__main__":
    main()
