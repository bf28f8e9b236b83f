"""`python -m prism`: the `prism` command, where its folder is not on the path."""

from prism.cli import main

if __name__ == "__main__":
    main()
