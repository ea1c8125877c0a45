"""`python -m lexergy` is the command `lexergy`."""

from lexergy.cli.main import main

if __name__ == "__main__":
    main()
