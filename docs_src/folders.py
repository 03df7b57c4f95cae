"""A folder whose files are resources."""

from toolhall import Folder, Notes, Toolhall, Toolkit


class Shop(Toolkit, version="1.2.0"):
    """Orders and manuals."""

    manuals = Folder("shop://manuals/{+path}", "manuals", fresh=60, notes=Notes(audience=("user",)))


hall = Toolhall(Shop)
