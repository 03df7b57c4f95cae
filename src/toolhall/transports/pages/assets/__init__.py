"""The style and the script of the pages, the only files that they load."""

from toolhall.transports.pages.assets.files import send_asset

__all__ = ["send_asset"]
