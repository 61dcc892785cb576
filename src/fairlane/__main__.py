"""`python -m fairlane`: the command line."""

from fairlane.cli.main import main

if __name__ == "__main__":
    main()
