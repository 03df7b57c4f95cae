"""The commands of `toolhall`, one module per command or command group; `cli/app.py` lists them."""
